# J4: with step marks a newcomer enters at the first operation of a step, in both columns the same
members 2
shards 2
ops 80
steps of 3
work 1 ms
when at 30 ms: join 2 as new
when new.0 begins: nothing
when new.1 begins: nothing
expect view 0.0 0.1 1.0 1.1 new.0 new.1
