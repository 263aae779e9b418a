# Q4: too few are left; a newcomer brings the quorum back, and the operation goes on
members 3
min_replicas 3
ops 20
work 1 ms
when 1 delivers op 3: kill 2
when 0 hears NoQuorum, 50 ms later: join 2 as new
expect view 0 1 new
expect op 19 participants 0 1 new
