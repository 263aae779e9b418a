# V4: a member dies in every stage of the recovery from the one before
members 6
ops 6
count 24
window 1
when 5 sends final op 3 to 0: kill 5
when 4 sends ColumnStatus epoch 2: kill 4
when 0 sends ColumnVerdicts to 1 epoch 3: kill 0
when 1 installs epoch 4: kill 1
expect op 4 participants 2 3
expect view 2 3
