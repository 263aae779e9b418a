# J5: a member leaves a busy group at a boundary, and nobody stops
members 3
ops 80
work 1 ms
when 2 delivers op 9: leave 2
expect 2 left
expect never coordinator sends Prepare epoch 2
expect op 79 participants 0 1
expect epoch 2
