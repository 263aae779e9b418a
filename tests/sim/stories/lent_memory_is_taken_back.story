# F1: a member stands still with results before its eyes that the others own; when it reads on they have long used their memory again
members 3
ops 8
count 12
window 1
lends
when 0 hears raw op 3 from 2: slow 0 to 2 40 ms
when 0 completes op 3: stop 2, slow coordinator to 2 300 ms
when 0 delivers op 6: continue 2
expect 2 evicted
expect op 3 participants 0 1 2
expect never 2 delivers op 3
