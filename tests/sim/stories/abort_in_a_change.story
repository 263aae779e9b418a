# Q8: a member gives up when it has told its status; it has no part in what follows
members 4
ops 6
count 16
when 3 sends raw op 3 to 0: kill 3
when 2 sends ColumnStatus epoch 2: abort 2
expect 2 aborted
expect lost 2 by self-report
expect op 3 participants 0 1
