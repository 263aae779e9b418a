# J5: a leaver's caller is gone, and the others go on calling up to its end: it stands in, with weight 0
members 3
ops 80
work 1 ms
when 2 delivers op 9: leave 2
expect 2 left
expect op 18 members 0 1 2
expect op 18 participants 0 1
expect op 20 members 0 1
