# Q7: an operation's deadline passes; the group evicts the one that everybody waits for
members 3
ops 6
op 3 deadline 20 ms
hold 2 before op 3
expect lost 2 by deadline
expect 2 evicted
expect op 3 participants 0 1
