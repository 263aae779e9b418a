# F1 V2: of two members that read each other's memory, one is thought dead at any moment, and lives
members 2
ops 1
count 4
plan oneshot
lends
all_call
when at any moment: evict 1 by 0
expect 1 evicted
