# Q7: a relay is lost inside an operation; those behind it come back by another one, and nobody is evicted
members 3
shards 2
relays 2
ops 8
when 1.0 calls op 3: orphan 1.0
expect epoch 1
expect unsaid lost [
