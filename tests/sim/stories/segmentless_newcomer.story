# V7 J5: a newcomer that comes by a change and leaves at once stands in for a reduce-scatter that was called before it came; without a segment it hears the weights
members 2
ops 40
window 2
work 3 ms
op 3 reduce_scatter
op 3 weight 2 by 1
hold 0 before op 0
hold 1 before op 0
when at 24 ms: join 2 as new
when new hears Prepare: restart coordinator, let 0 go, let 1 go
when new installs epoch 5: leave new
expect op 3 members 0 1 new
expect new left
