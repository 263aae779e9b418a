# Q2: a relay tells the coordinator's successor which view those behind it hold
members 3
shards 2
relays 2
ops 8
when 1.0 calls op 3: restart coordinator after 5 ms
expect note goes on unchanged
