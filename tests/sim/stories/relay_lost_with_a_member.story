# Q7: a relay is lost and one of those behind it with it; its mate alone cannot come back, and the others go on
members 3
shards 2
relays 2
ops 8
when 1.0 calls op 3: kill 1.0, orphan 1.1
expect 1.1 evicted
expect epoch 2
