# J1 Q2: the coordinator dies when a newcomer has confirmed; the new one finds nobody who knows it
members 3
ops 100
work 1 ms
when at 30 ms: join 3 as new
when new sends Confirmed: restart coordinator
when new ends: join 3 as again
expect never anybody hears Announce epoch 2
expect new evicted
expect view 0 1 2 again
expect op 99 participants 0 1 2 again
