# V4 V6: a member calls a broadcast when it has long been salvaged; the dead stay its participants
members 4
ops 6
count 16
op 3 broadcast root 3
hold 2 before op 3
when 0 completes op 3: kill 3
when 0 installs epoch 2, 10 ms later: let 2 go
expect op 3 verdict salvage
expect op 3 participants 0 1 2 3
expect op 3 delivered by 0 1 2
