# Q4: a job of two that needs two loses one: no view of one is formed
members 2
min_replicas 2
ops 20
work 1 ms
when 1 delivers op 3: kill 1
expect 0 waits
expect epoch 1
expect note no quorum
