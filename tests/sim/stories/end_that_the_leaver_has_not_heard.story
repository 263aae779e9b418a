# J5 J3: the only one who stays dies when it has announced a leaver's end, which the leaver has not heard
members 2
ops 60
window 2
work 1 ms
when 0 delivers op 3: leave 1
then 0 sends Reserved: slow coordinator to 0 20 ms
then 0 delivers op 7: slow 0 to 1 200 ms
then 0 sends Announce, 3 ms later: kill 0 proven, join 0 as new
expect never 1 installs epoch 2
expect 1 left
expect view new
