# Q4: two halves lose each other, and neither has the replicas that the job needs
members 4
min_replicas 3
ops 20
work 1 ms
when 1 delivers op 3: part 0 1 coordinator from 2 3
expect note no quorum
expect epoch 1
expect 0 waits
expect 1 waits
expect 2 waits
expect 3 waits
