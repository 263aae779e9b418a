# F3: a one-shot exchange in place is through here before the input has reached everybody
members 4
ops 6
count 4
window 1
plan oneshot
in_place
when 0 completes op 2: slow 0 to 2 8 ms
when 3 completes op 2: kill 3
when 0 installs epoch 2: slow 0 to 2 0 ms
expect op 3 verdict retry
expect op 3 participants 0 1 2
