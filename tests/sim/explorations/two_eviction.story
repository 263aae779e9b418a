# V1 V2 Q8: of two members one is evicted at any moment, and lives
members 2
ops 1
count 4
plan oneshot
all_call
when at any moment: evict 1 by 0
expect 1 evicted
