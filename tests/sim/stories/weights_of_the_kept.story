# V7 F5: a retry reads kept pieces with the weights that came with them
members 4
ops 6
count 16
op 3 weight 2 by 0
op 3 weight 0 by 1
when 3 sends raw op 3 to 0: kill 3
expect op 3 participants 0 2
expect op 3 members 0 1 2
