# V10: the column's leader dies with one status in hand; the next in the list takes its place
members 4
ops 6
count 16
window 2
when 3 sends raw op 3 to 0: kill 3
when 0 hears ColumnStatus epoch 2: kill 0
expect never 0 sends ColumnVerdicts epoch 2
expect op 3 verdict retry
expect op 3 participants 1 2
