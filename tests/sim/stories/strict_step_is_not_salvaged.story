# V8: an operation of a strict step is begun anew though a survivor holds the result
members 4
ops 8
count 16
steps of 4 strict
when 3 sends final op 3 to 0: kill 3
expect op 3 verdict retry
expect op 3 participants 0 1 2
