# F3 V8: in place, one member is complete in a strict step; the retry needs its input again
members 4
ops 8
count 16
in_place
steps of 4 strict
when 3 sends final op 3 to 0: kill 3
expect op 3 verdict retry
expect op 3 participants 0 1 2
