# F2: an ack from before the change arrives behind it, when the op has begun anew
members 5
ops 5
window 1
count 4
op 3 reduce_scatter
when 4 completes op 2: slow 4 to 3 40 ms
when 2 sends raw op 3: slow 2 to 1 20 ms
when 2 completes op 3: kill 4
then 3 sends Credit to 2 epoch 2: slow 3 to 2 60 ms
when 1 installs epoch 2, 42 ms later: kill 3
expect op 3 verdict retry retry
expect op 3 participants 0 1 2
expect seen 1 hears ack op 3 from 2 epoch 1
