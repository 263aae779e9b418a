# Q2: a Prepare comes again when a later one with the same members is over
members 3
ops 100
work 1 ms
op 3 count 5 by 1
op 12 count 5 by 1
when coordinator sends Prepare to 1 epoch 2: repeat after 30 ms
expect op 3 mismatch
expect op 12 mismatch
expect op 99 participants 0 1 2
expect epoch 3
