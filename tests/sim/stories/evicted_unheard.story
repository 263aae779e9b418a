# Q4 Q5: a member is evicted right when it loses its connection; nobody goes on without it before deaths prove nothing to it any more
members 2
coordinator hosted
ops 8
hold 1 before op 3
when 0 calls op 3: hiccup 1 60 ms
when 0 calls op 3, 1 ms later: evict 1 by 0
when 0 delivers op 3: kill 0 proven, let 1 go
expect op 3 delivered by 0
expect op 3 participants 0
expect 1 waits
