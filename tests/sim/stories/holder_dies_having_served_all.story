# V4: the only holder dies in the new stability round, when two of three have said that they hold all
members 4
ops 6
window 1
count 16
when 3 sends final op 3 to 0: kill 3
when 0 sends final op 3 to 1 epoch 1 nth 2: slow 2 to anybody 30 ms
when 2 completes op 3: kill 0
expect op 3 verdict salvage commit
expect op 3 participants 0 1 2 3
expect op 4 participants 1 2
