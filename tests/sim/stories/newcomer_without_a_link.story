# J3: a newcomer cannot reach one of the members, so it does not get in
members 3
ops 80
work 1 ms
when at 30 ms: join 3 as new
when new sends Hello: cut new 1
expect new waits
expect op 79 participants 0 1 2
expect view 0 1 2
