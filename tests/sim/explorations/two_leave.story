# J1 J3 J5: of two members one leaves at any moment of six operations
members 2
ops 6
window 1
count 4
plan oneshot
all_call
overtakings 1
when at any moment: leave 1
expect 1 anyhow
