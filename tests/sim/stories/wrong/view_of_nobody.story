# J5: all have gone, and are said to have a view
members 2
when 0 delivers op 2: kill 0 proven, kill 1 proven
expect view 0 1
