# F3 V5: in place, the root of a broadcast dies when a part of it has landed; the rest is restored
members 4
ops 6
count 16
in_place
op 3 broadcast root 3
when 3 sends final op 3 chunk 1: kill 3
expect op 3 absent
