# V10 V3: the column's leader dies when it has told its verdicts to all but the last
members 4
ops 6
count 16
window 2
when 3 sends raw op 3 to 0: kill 3
when 0 sends ColumnVerdicts to 1 epoch 2: kill 0
expect op 3 verdict retry retry
expect op 3 participants 1 2
expect view 1 2
