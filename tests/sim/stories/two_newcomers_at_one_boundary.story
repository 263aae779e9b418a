# J3: two replicas enter by one view
members 2
ops 100
work 1 ms
when coordinator sends Install to 1 epoch 1: slow 1 to coordinator 8 ms
when at 22 ms: join 2 as first, join 3 as second
expect epoch 2
expect op 99 participants 0 1 first second
