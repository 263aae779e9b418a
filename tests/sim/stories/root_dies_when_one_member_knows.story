# J1: the root dies in its announcement: one member knows the boundary, the newcomer does not
members 3
ops 80
work 1 ms
when at 30 ms: join 3 as new
when 0 sends Announce to 1 epoch 2: kill 0
expect seen 1 installs epoch 2
expect never new installs epoch 2
expect view 1 2 new
expect op 79 participants 1 2 new
