# J1 V3: a member dies in the first operation that has the newcomer
members 3
ops 80
work 1 ms
when at 30 ms: join 3 as new
when new sends raw: kill 2
expect view 0 1 new
expect op 79 participants 0 1 new
