# Q4: two halves lose each other; the one with the coordinator goes on, the other waits
members 4
min_replicas 2
ops 20
work 1 ms
when 1 delivers op 3: part 0 1 coordinator from 2 3
expect op 19 participants 0 1
expect view 0 1
expect 2 waits
expect 3 waits
