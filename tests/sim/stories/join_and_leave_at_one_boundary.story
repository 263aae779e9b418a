# J3 J5: one comes and one goes by one view
members 3
ops 100
work 1 ms
when coordinator sends Install to 1 epoch 1: slow 1 to coordinator 8 ms
when at 22 ms: join 3 as new, leave 2
expect 2 left
expect epoch 2
expect op 99 participants 0 1 new
