# J5: two leave, and a newcomer begins behind what only the lost root had called: neither waits for the other to call that
members 3
ops 24
window 6
steps of 2 eager
work 1 ms
hold 0 before op 2
hold 1 before op 2
hold 2 before op 2
when 0 installs epoch 1: join 3 as new
when new installs epoch 2: let 0 go
when new calls op 7: kill 0, leave 1, leave 2
expect 1 left
expect 2 left
