# Q3: a process stands still, is evicted for its silence, and goes on: it is out, and told so
members 4
ops 6
count 16
when 3 sends raw op 3 to 0: stop 3
when 0 installs epoch 2, 50 ms later: continue 3
expect 3 evicted
expect lost 3 by silence
expect op 3 participants 0 1 2
