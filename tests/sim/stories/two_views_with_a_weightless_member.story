# V7 V3: two views in a row while an op has a member of weight 0
members 4
ops 6
count 16
op 3 weight 0 by 1
op 3 weight 2 by 0
when 3 sends raw op 3 to 0: kill 3
when 2 sends ColumnStatus epoch 2: kill 2
expect op 3 verdict retry retry
expect op 3 participants 0
expect op 3 members 0 1
expect view 0 1
