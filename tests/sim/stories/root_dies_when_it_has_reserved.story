# J1 J3: the root dies when it has promised a boundary, and has told nobody
members 3
ops 80
work 1 ms
when at 30 ms: join 3 as new
when 0 sends Reserved: kill 0
expect never anybody hears Announce epoch 2
expect view 1 2 new
expect op 79 participants 1 2 new
