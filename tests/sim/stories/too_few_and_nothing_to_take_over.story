# J3 Q4: only a leaver is left that has its end, too few for the job, and a newcomer that can take over nothing: the job ends
members 3
min_replicas 2
ops 60
window 2
work 1 ms
when 0 delivers op 3: leave 1
then 1 installs epoch 2: kill 2 proven
then 1 completes op 7: slow 0 to 1 300 ms
then 0 delivers op 10: stop 0, join 2 as new
expect 0 anyhow
expect 1 waits
expect new waits
expect note only leavers are left
