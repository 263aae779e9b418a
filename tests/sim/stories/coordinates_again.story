# Q3 Q5: a member coordinates, is not heard, follows another one and coordinates again; a newcomer had promised its change of before, and the others have gone on without it
members 4
coordinator hosted
ops 120
wires 2 ms
work 1 ms
when at 40 ms: join 4 as new
when coordinator sends Confirm to new: stop new
then coordinator sends VoidPlan to new: continue new, kill 3 proven
then new sends ColumnStatus to 0: hiccup new 420 ms, hiccup 2 50 ms
when new sends ColumnStatus to 0, 15 ms later: hiccup 1 30 ms
when new sends ColumnStatus to 0, 45 ms later: stop 0
when new sends ColumnStatus to 0, 100 ms later: continue 0
then 1 installs epoch 8: leave 1
expect 1 left
expect new rejected
expect view 0 2
