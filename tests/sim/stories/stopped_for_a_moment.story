# Q7: a process stands still for less than the timeout
members 4
ops 6
when 3 sends raw op 3 to 0: stop 3
when 3 sends raw op 3 to 0, 80 ms later: continue 3
expect op 3 participants 0 1 2 3
expect epoch 1
