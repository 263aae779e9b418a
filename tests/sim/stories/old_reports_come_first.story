# Q4: those who report the older view reach the new coordinator long before the one who installed
members 4
ops 8
count 16
when 3 sends raw op 3 to 0: kill 3
when coordinator sends Install to 0 epoch 2: restart coordinator, slow 0 to coordinator 60 ms
expect seen 0 installs epoch 2
expect never 1 installs epoch 2
expect op 3 participants 0 1 2
expect view 0 1 2
