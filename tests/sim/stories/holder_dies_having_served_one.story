# V4: the only holder of a chunk dies when it has served one of two; that one serves the other
members 4
ops 6
count 16
when 3 sends final op 3 to 0: kill 3
when 0 installs epoch 2: slow 0 to 2 20 ms
when 0 hears Want op 3 from 2: kill 0
expect op 3 verdict salvage salvage
expect op 3 participants 0 1 2 3
expect seen 1 hears Want op 3 from 2 epoch 3
