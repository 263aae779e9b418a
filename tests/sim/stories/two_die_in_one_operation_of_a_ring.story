# V3 F5: both neighbours of a ring's member die
members 5
ops 6
count 20
plan ring
when 2 sends partial op 3 to 3: kill 1, kill 3
expect op 3 participants 0 2 4
