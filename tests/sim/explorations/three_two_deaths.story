# V3 V10 Q3: of three members two die, the second perhaps while the first one's death is decided
members 3
ops 1
count 4
plan oneshot
all_call
overtakings 1
when at any moment: kill 2 proven
when at any moment: kill 0 proven
expect all finish
