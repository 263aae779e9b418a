# V1 V2 F5: of two members, each owner of a chunk, the leader dies at any moment
members 2
ops 1
count 8
plan direct
when at any moment: kill 0 proven
expect all finish
