# J5 J4: both processes of a replica leave, in two columns, at one boundary
members 3
shards 2
ops 100
work 1 ms
when 2.0 delivers op 9: leave 2
expect 2 left
expect view 0.0 0.1 1.0 1.1
expect epoch 2
