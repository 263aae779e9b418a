# V5: who made the mismatch installs its view alone and dies; the others have begun anew without it
members 3
ops 6
op 3 count 5 by 0
when coordinator sends Prepare to 0 epoch 2: slow 0 to 1 100 ms, slow 0 to 2 100 ms
when coordinator sends Install to 1 epoch 2: restart coordinator
when 0 installs epoch 2, 1 ms later: kill 0 proven
expect op 3 ok
expect op 3 delivered by 1 2
expect never 1 installs epoch 2
