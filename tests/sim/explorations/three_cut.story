# Q7: of three members two lose each other; one of them goes
members 3
ops 1
count 4
plan oneshot
all_call
overtakings 2
when at any moment: cut 1 2
expect 1 anyhow
expect 2 anyhow
