# V1 V2 V3 V4 F5: of three owners of a chunk the leader dies at any moment
members 3
ops 1
count 12
plan direct
all_call
overtakings 2
when at any moment: kill 0 proven
expect all finish
