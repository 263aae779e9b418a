# J3: the root has to stop at a boundary that it has promised, until it may announce it
members 3
ops 100
work 1 ms
when at 30 ms: join 3 as new
when 0 sends Reserved: slow coordinator to 0 15 ms
when 0 installs epoch 2: slow coordinator to 0 0 ms
expect op 99 participants 0 1 2 new
