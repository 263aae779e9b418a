# Q7: one of two behind a relay dies, and the replica goes with it in both columns
members 3
shards 2
relays 2
ops 8
when 1.1 calls op 3: kill 1.1
expect 1.0 evicted
expect epoch 2
