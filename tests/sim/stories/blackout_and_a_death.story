# Q7: one of those whose connections close at once is really dead
members 4
ops 40
work 2 ms
when 1 delivers op 9: hiccup 0 20 ms, hiccup 1 20 ms, hiccup 2 20 ms, kill 3
expect note connections closed at once
expect lost 3 by control connection
expect op 39 participants 0 1 2
