# Q5 Q2: the member that coordinates dies when all have promised; the next one goes above
members 5
coordinator hosted
ops 8
count 16
when 4 sends raw op 3 to 1: kill 4
when 3 sends ColumnStatus to 0 epoch 2: kill 0
expect view 1 2 3
expect all finish
