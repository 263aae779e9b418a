# F3: in place, somebody dies when some results have landed on the inputs
members 4
ops 6
count 16
window 1
in_place
when 3 sends raw op 3: slow 3 to anybody 30 ms
when 0 hears final op 3: kill 3
expect op 3 verdict retry
expect op 3 participants 0 1 2
