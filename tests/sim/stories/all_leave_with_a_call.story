# J5: all leave at once, and what one has called nobody else has; the notice of it comes late
members 3
ops 30
window 6
work 1 ms
hold 0 before op 10
hold 1 before op 10
when 2 calls op 10: leave 0, leave 1, leave 2
when 2 installs epoch 3: slow 2 to 0 30 ms, slow 2 to 1 30 ms
expect op 10 ok
expect 0 left
expect 1 left
expect 2 left
