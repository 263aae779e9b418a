# Q3: who is dead cannot be told that it is out
members 3
when 0 delivers op 2: kill 1 proven
expect 1 evicted
