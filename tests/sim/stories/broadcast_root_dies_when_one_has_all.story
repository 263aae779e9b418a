# V4 V5: the root of a broadcast dies when one member has all of it
members 4
ops 6
count 16
window 1
op 3 broadcast root 3
when 3 completes op 2: slow 3 to 1 30 ms, slow 3 to 2 30 ms
when 0 completes op 3: kill 3
expect op 3 verdict salvage
expect op 3 participants 0 1 2 3
