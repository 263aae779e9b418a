# Q2: a view has reached its newcomer, and one who dies; who has promised it names the newcomer, so the restarted coordinator waits
members 2
ops 8
hold 0 before op 3
hold 1 before op 3
when at 60 ms: join 2 as new
when new sends ColumnStatus to 0: cut 1 coordinator, slow new to coordinator 20 ms
when new installs epoch 3: kill 0 proven, restart coordinator, mend 1 coordinator, let 1 go
expect view 1 new
