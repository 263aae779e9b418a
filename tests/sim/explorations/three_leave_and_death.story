# J1 J3 J5: of three members one leaves and one dies, in six operations
members 3
ops 6
window 1
count 4
plan oneshot
all_call
overtakings 0
when at any moment: leave 1
when at any moment: kill 2 proven
expect 1 anyhow
