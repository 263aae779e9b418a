# F3: in place, the segments' owner dies when some have their results
members 4
ops 6
count 4
window 1
in_place
op 3 reduce_scatter
when 3 completes op 2: slow 3 to 0 30 ms
when 1 completes op 3: kill 3
expect op 3 verdict retry
expect op 3 participants 0 1 2
