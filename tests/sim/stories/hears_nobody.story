# Q7 V10: a member does not hear the coordinator any more, and is needed for a change
members 4
ops 60
work 2 ms
when 1 delivers op 3: cut coordinator to 1
when 3 delivers op 9: kill 3
expect view 0 2
expect 1 waits
