# J4: the root has to stop before the step that would let others into the boundary's
members 3
ops 60
steps of 1
work 1 ms
when at 30 ms: join 3 as new
when 0 sends Reserved: slow coordinator to 0 20 ms
when 0 installs epoch 2: slow coordinator to 0 0 ms
expect op 59 participants 0 1 2 new
expect epoch 2
