# Q7: one process of a replica of two dies; the other one has to go, in its own column
members 3
shards 2
ops 6
when 1.0 sends raw op 3: kill 1.0
expect 1.1 evicted
expect lost 1.0 by control connection
expect lost 1.1 by replica
expect view 0.0 0.1 2.0 2.1
