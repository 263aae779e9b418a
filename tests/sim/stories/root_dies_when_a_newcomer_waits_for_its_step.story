# J4 J1: the root dies when a newcomer knows its step, and nobody has begun it
members 3
ops 80
steps of 3
work 1 ms
when at 30 ms: join 3 as new
when new installs epoch 2: kill 0
expect view 1 2 new
expect op 79 participants 1 2 new
