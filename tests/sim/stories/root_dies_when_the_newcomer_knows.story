# J1: the root dies in its announcement: the idle newcomer alone knows the boundary, so it is void
members 3
ops 80
work 1 ms
when at 30 ms: join 3 as new
when new sends Confirmed: slow 0 to 1 200 ms, slow 0 to 2 200 ms
when new installs epoch 2: kill 0
expect never 1 hears Announce
expect view 1 2 new
expect op 79 participants 1 2 new
