# J1 V3: a newcomer dies when it has sent a part of its first input
members 3
ops 80
work 1 ms
when at 30 ms: join 3 as new
when new sends raw: kill new
expect view 0 1 2
expect op 79 participants 0 1 2
