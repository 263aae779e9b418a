# Q4: a view with a newcomer has reached the newcomer and one more; a majority of it is none of the view before
members 2
coordinator hosted
ops 8
hold 0 before op 3
hold 1 before op 3
when at 60 ms: join 2 as new
when new sends ColumnStatus to 0: slow coordinator to 0 1000 ms
when new installs epoch 3: part 0 from 1 new
when at 430 ms: slow coordinator to 0 0 ms
when at 900 ms: let 0 go, let 1 go
expect 1 waits
expect new waits
