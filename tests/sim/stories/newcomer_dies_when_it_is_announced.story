# J1 J3: a newcomer dies when all know of its boundary, before its first operation
members 3
ops 80
work 1 ms
when at 30 ms: join 3 as new
when new installs epoch 2: kill new
expect lost new by control connection
expect view 0 1 2
expect op 79 participants 0 1 2
