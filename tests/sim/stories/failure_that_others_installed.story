# V6: a mismatch is delivered by two who die, the third knows their verdict and not their view
members 3
ops 6
op 3 count 5 by 1
when coordinator sends Install to 1 epoch 2: restart coordinator
when 0 delivers op 3: kill 0 proven
when 1 delivers op 3: kill 1 proven
expect op 3 mismatch
expect op 3 delivered by 0 1 2
expect never 2 installs epoch 2
