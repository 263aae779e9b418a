# J5: two members leave by one view, and are released together
members 4
ops 80
work 1 ms
when coordinator sends Install to 1 epoch 1: slow 1 to coordinator 8 ms
when at 24 ms: leave 2, leave 3
expect 2 left
expect 3 left
expect epoch 2
expect op 79 participants 0 1
