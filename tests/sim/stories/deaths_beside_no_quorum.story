# Q4 Q5: a half with the first member goes on and dies; who followed one without a quorum has seen that, and it counts for nothing
members 4
coordinator hosted
ops 8
count 16
hold 2 before op 3
when 0 calls op 3: hiccup 1 40 ms, hiccup 2 25 ms
when 0 delivers op 7: stop 0
when 2 hears NoQuorum: kill 0 proven, kill 3 proven, let 2 go
expect op 3 delivered by 0 3
expect op 3 participants 0 3
expect 1 waits
expect 2 waits
