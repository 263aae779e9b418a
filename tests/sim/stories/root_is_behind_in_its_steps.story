# J4: the root's user is late; the others may be one step ahead of it, and no more
members 3
ops 40
window 8
steps of 1 eager
work 12 ms
hold 0 before op 4
when at 21 ms: join 3 as new
when 0 sends Reserved, 5 ms later: let 0 go
expect op 39 participants 0 1 2 new
expect epoch 2
