# V5: the root of a broadcast dies with some chunks sent, and no chunk's like anywhere else
members 4
ops 6
count 16
op 3 broadcast root 3
when 3 sends final op 3 chunk 1: kill 3
expect op 3 absent
expect op 4 participants 0 1 2
