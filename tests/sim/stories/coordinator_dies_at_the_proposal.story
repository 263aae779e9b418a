# J3 Q2: the coordinator dies during a join, when the root holds a boundary for it
members 3
ops 100
work 1 ms
when at 30 ms: join 3 as new
when 0 sends Reserved: restart coordinator
expect view 0 1 2 new
expect op 99 participants 0 1 2 new
