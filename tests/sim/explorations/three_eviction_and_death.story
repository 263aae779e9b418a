# V2 V10 Q3: of three members one is evicted and lives, another dies
members 3
ops 1
count 4
plan oneshot
all_call
overtakings 1
when at any moment: evict 1 by 0
when at any moment: kill 2 proven
expect 1 evicted
