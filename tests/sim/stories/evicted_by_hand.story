# Q7: an operator asks for an eviction in the middle of an operation
members 3
ops 6
when 2 sends raw op 3: evict 2 by 0
expect lost 2 by operator
expect 2 evicted
expect view 0 1
