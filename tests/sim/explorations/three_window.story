# V3 V8 J3: of three members one dies while two operations are under way
members 3
ops 2
window 2
count 4
plan oneshot
all_call
overtakings 1
when at any moment: kill 2 proven
expect all finish
