# V3 F5: a ring breaks when partial sums are under way; they die with the attempt
members 4
ops 6
count 16
plan ring
when 2 sends partial op 3 to 3: kill 3
expect op 3 verdict retry
expect op 3 participants 0 1 2
