# J1: the announcement of a join reaches a member behind the Prepare of a failure
members 4
ops 80
work 1 ms
when at 30 ms: join 4 as new
when new sends Confirmed: slow 0 to 1 4 ms, kill 3
expect seen 1 hears Announce epoch 2
expect never 1 installs epoch 2
expect op 79 participants 0 1 2 new
