# J1: a leaver that has passed its end is the last who was in: who comes begins behind all that it has heard of, not where it ended
members 3
ops 60
window 6
steps of 2
work 1 ms
when 0 delivers op 3: join 3 as early
then early installs epoch 2: leave 2, leave early, join 4 as late, slow 0 to 2 20 ms, slow 0 to early 20 ms, slow 1 to 2 20 ms, slow 1 to early 20 ms
then 0 installs epoch 5: slow 0 to 2 0 ms, slow 1 to 2 0 ms
then 1 calls op 9: kill 0 proven
then 2 installs epoch 6: kill 1 proven
expect never late calls op 9
expect 2 left
expect early left
expect view late
