# F5: somebody dies while its peers hold each other's pieces in each other's memory; the retry gets them anew
members 3
ops 6
count 16
window 1
lends
when 2 completes op 2: slow 2 to anybody 30 ms
when 0 hears raw op 3 from 1: kill 2
expect op 3 verdict retry
expect op 3 participants 0 1
