# V5: the leader delivers a mismatch and dies; whoever heard its verdict says the same
members 4
ops 6
op 3 count 5 by 1
when coordinator sends Install to 0 epoch 2: slow coordinator to 1 40 ms, slow coordinator to 2 40 ms
when 0 delivers op 3: kill 0
expect op 3 mismatch
expect op 3 delivered by 0 1 2 3
expect view 1 2 3
