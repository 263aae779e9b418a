# F4 V7: all calls in the lane are alike, but that an input of 1 and one of 2 do not count
members 3
lanes
plan oneshot
count 4
window 1
pause 1 ms
ops 12
op 5 weight 0 by 1
op 8 weight 0 by 2
expect op 5 participants 0 2
expect op 6 participants 0 1 2
expect op 8 participants 0 1
