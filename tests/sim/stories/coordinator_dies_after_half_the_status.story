# Q2 V10: the leader has one status of two when the coordinator dies; verdicts come, Install never
members 4
ops 6
count 16
when 3 sends raw op 3 to 0: kill 3
when 0 hears ColumnStatus epoch 2: restart coordinator
expect never anybody installs epoch 2
expect op 3 verdict retry retry
expect op 3 participants 0 1 2
