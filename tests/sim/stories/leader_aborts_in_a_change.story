# Q8 V10: the leader gives up when it has told its verdicts, before Install
members 4
ops 6
count 16
when 3 sends final op 3 to 0: kill 3
when 0 sends ColumnVerdicts to 2 epoch 2: abort 0
expect 0 aborted
expect op 3 participants 1 2
expect view 1 2
