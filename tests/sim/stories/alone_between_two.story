# J3 J1: between a leaver's end and a newcomer's first step one member is alone; where it has been nobody else begins
members 4
ops 60
steps of 1
work 1 ms
when 1 delivers op 2: leave 1
then 1 installs epoch 2: kill 2 proven
then 0 delivers op 4: join 2 as first
then first installs epoch 4: kill 3 proven
then 0 delivers op 6: stop 0, join 3 as second
expect seen second installs epoch 9
expect 0 anyhow
expect 1 left
expect view first second
