# J5: who comes leaves before it begins, and the only ones who had called are lost: a leaver waits for none of their calls
members 3
ops 60
window 6
steps of 2
work 1 ms
when 0 delivers op 3: join 3 as early
then early installs epoch 2: leave 2, leave early, join 4 as late, slow 0 to 2 20 ms, slow 0 to early 20 ms, slow 1 to 2 20 ms, slow 1 to early 20 ms
then 1 calls op 9: kill 0 proven
then 1 installs epoch 6: slow 1 to 2 60 ms, slow 1 to early 60 ms, slow 1 to late 60 ms
then 2 installs epoch 6: kill 1 proven
expect 2 left
expect early left
expect view late
