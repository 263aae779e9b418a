# F1 F5: of two members that read each other's memory, the leader dies at any moment
members 2
ops 1
count 8
plan direct
lends
when at any moment: kill 0 proven
expect all finish
