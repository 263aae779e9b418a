# Q7: late_timeout is set, and somebody does not come for longer
members 3
ops 6
late_timeout 200 ms
hold 2 before op 3
expect lost 2 by late
expect 2 evicted
expect op 3 participants 0 1
