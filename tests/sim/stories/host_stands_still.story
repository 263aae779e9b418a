# Q5 Q3: the member that coordinates is stopped for long; when it continues the others have gone on without it
members 4
coordinator hosted
ops 8
count 16
when 1 calls op 3: stop 0
when 2 delivers op 6: continue 0
expect 0 evicted
expect view 1 2 3
