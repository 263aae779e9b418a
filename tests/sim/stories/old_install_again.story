# V10: an Install comes again while a later view is promised and its verdicts are on their way
members 4
ops 40
work 1 ms
when 3 delivers op 3: kill 3
when 2 installs epoch 2: kill 2
when coordinator sends Install to 1 epoch 2: repeat after 8 ms
when 1 sends ColumnStatus epoch 3: slow 0 to 1 10 ms
expect op 39 participants 0 1
expect epoch 3
