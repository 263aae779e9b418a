# Q3: who is back first at a restart had been left out; only a newcomer that was being taken in knows, for those who went on are gone
members 2
ops 60
hold 0 before op 8
hold 1 before op 6
when 1 calls op 3: cut 1 coordinator
when 0 installs epoch 2: join 2 as new
when new sends ColumnStatus to 0: kill 0, restart coordinator after 5 ms, mend 1 coordinator, let 1 go
expect 1 waits
expect lost 1 by earlier change
expect new waits
