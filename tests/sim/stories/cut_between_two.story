# Q7: two members lose each other, and both live; the higher rank goes
members 4
ops 6
when 1 sends raw op 3: cut 1 2
expect 2 evicted
expect lost 2 by link
expect view 0 1 3
