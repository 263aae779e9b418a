# J5: all leave at once; nothing is under way for anybody when they go
members 3
ops 30
work 1 ms
when 0 delivers op 9: leave 0, leave 1, leave 2
expect 0 left
expect 1 left
expect 2 left
expect note nothing is under way
