# J5 J3: the root itself leaves: it announces its own end, and another one releases it
members 3
ops 80
work 1 ms
when 0 delivers op 9: leave 0
expect 0 left
expect seen 1 sends Release to 0
expect op 79 participants 1 2
