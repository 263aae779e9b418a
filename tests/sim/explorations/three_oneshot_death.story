# V1 V2 V3: of three members one dies at any moment, and words overtake each other
members 3
ops 1
count 4
plan oneshot
overtakings 2
when at any moment: kill 2 proven
expect all finish
