# J1 J5: a leaver dies when its end is announced, and others have still need of it
members 3
ops 80
work 1 ms
when 2 delivers op 9: leave 2
when 2 installs epoch 2: kill 2
expect lost 2 by control connection
expect view 0 1
expect op 79 participants 0 1
