# V4 V3: the only holder of a chunk dies before it has served it; nobody has it any more
members 4
ops 6
count 16
when 3 sends final op 3 to 0: kill 3
when 1 sends Want op 3: kill 0
expect op 3 verdict salvage retry
expect op 3 participants 1 2
