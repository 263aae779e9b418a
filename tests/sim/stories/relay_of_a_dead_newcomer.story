# Q7: a newcomer behind a relay dies when it has confirmed, and the coordinator right after it; what its relay says ends its place, and others come in
members 2
relays 1
ops 200
work 1 ms
when at 30 ms: join 2 as new
when new sends Confirmed: kill new, restart coordinator
when 0 delivers op 60: join 3 as late
expect view 0 1 late
