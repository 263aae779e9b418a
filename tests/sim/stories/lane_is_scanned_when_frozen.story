# F4: 0 has delivered from the lane, 2 dies, and 1 has not looked yet; it finds all lines when it freezes
members 3
ops 8
count 4
window 1
plan oneshot
lanes
hold 2 before op 3
when at 60 ms: let 2 go
when 2 calls op 3: slow 2 to 1 60 ms
when 0 delivers op 3: kill 2 proven
expect op 3 participants 0 1 2
expect op 3 verdict commit
expect lost 2 by process watch
