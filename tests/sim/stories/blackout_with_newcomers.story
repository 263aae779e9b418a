# Q7: the coordinator loses all connections but one, those of newcomers among them, and suspects itself
members 2
ops 40
work 1 ms
hold 0 before op 0
hold 1 before op 0
when at 24 ms: join 2 as one, join 3 as two
when coordinator sends Welcome to two: hiccup one 20 ms, hiccup two 20 ms, hiccup 1 20 ms
when at 60 ms: let 0 go, let 1 go
expect note connections closed at once
expect op 39 participants 0 1 one two
