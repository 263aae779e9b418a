# V6 V5: who delivered a mismatch is dead; those left have heard of it and not called the op yet
members 4
ops 6
hold 2 before op 3
hold 3 before op 3
op 3 count 5 by 1
when 0 delivers op 3: kill 0
when 1 delivers op 3: kill 1
when 3 installs epoch 3, 30 ms later: let 2 go, let 3 go
expect op 3 mismatch
expect op 3 delivered by 0 1 2 3
expect op 4 participants 2 3
