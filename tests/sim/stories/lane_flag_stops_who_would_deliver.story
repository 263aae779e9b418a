# F4: the line of 2 is seen when 0 is frozen already; 1 sees all lines, and the flag, and waits for the verdict
members 3
ops 8
count 4
window 1
plan oneshot
lanes
hold 1 before op 3
when 2 calls op 3: slow 2 to 2 10 ms
when 2 calls op 3, 1 ms later: stop 2
when 2 calls op 3, 2 ms later: slow coordinator to 1 20 ms, evict 2 by 0
when 2 calls op 3, 3 ms later: let 1 go
when 1 delivers op 4: continue 2
expect op 3 participants 0 1 2
expect op 3 verdict salvage
expect 2 evicted
