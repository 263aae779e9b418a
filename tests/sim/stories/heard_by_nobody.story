# Q7: what a member says to the coordinator is lost on the way, and no connection closes
members 4
ops 60
work 2 ms
when 1 delivers op 3: cut 1 to coordinator
expect 1 evicted
expect lost 1 by silence
expect view 0 2 3
