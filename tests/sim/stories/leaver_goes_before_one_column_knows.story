# J5 J4: one column has released its leaver before the other has announced its end
members 3
shards 2
ops 100
work 1 ms
when 2.0 delivers op 9: leave 2
when 0.1 sends Reserved: slow coordinator to 0.1 12 ms
when 2.0 sends Goodbye: kill 2.0 proven
expect 2.1 left
expect view 0.0 0.1 1.0 1.1
expect unsaid lost [
expect epoch 2
