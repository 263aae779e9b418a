# Q7: a link fails in one direction only
members 4
ops 30
work 1 ms
when 1 delivers op 3: cut 1 to 2
expect 2 evicted
expect view 0 1 3
