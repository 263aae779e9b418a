# J3 J5: who went on is lost, and only a leaver is left that has its end; a newcomer waits until that job is over
members 3
ops 60
window 2
work 1 ms
when 0 delivers op 3: leave 1
then 1 installs epoch 2: kill 2 proven
then 1 completes op 7: slow 0 to 1 300 ms
then 0 delivers op 10: stop 0, join 2 as new
expect seen 1 installs epoch 8
expect 0 anyhow
expect 1 left
expect new waits
