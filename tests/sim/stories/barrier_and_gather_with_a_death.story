# V3 F7: a barrier and an all-gather lose a member; its segment is empty
members 4
ops 8
count 4
op 2 barrier
op 3 all_gather
when 3 sends raw op 2 to 0: kill 3
expect op 2 verdict salvage
expect op 2 participants 0 1 2 3
expect op 3 participants 0 1 2
