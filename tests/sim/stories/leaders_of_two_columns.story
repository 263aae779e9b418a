# V10 J4: the leader of one column dies at its verdicts, then the new leader of the other
members 4
shards 2
ops 6
count 16
when 3.0 sends raw op 3: kill 3
when 0.0 sends ColumnVerdicts to 1.0 epoch 2: kill 0
when 1.1 sends ColumnVerdicts to 2.1 epoch 3: kill 1
expect view 2.0 2.1
expect seen 2.0 installs epoch 4
