# J1 J3: a newcomer dies right behind its confirmation, before the boundary is announced
members 3
ops 80
work 1 ms
when at 30 ms: join 3 as new
when new sends Confirmed: kill new
expect view 0 1 2
expect op 79 participants 0 1 2
