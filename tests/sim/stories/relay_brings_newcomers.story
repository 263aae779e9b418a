# J3: a replica behind a relay joins at one boundary in both columns
members 2
shards 2
relays 2
ops 80
when 0.0 calls op 2: join 2 as new
