# J4: one column is far ahead of the other when a newcomer comes; both take the later boundary
members 2
shards 2
ops 120
work 1 ms
hold 0.1 before op 2
hold 1.1 before op 2
when at 40 ms: join 2 as new, let 0.1 go, let 1.1 go
expect view 0.0 0.1 1.0 1.1 new.0 new.1
