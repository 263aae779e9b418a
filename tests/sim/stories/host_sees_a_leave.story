# Q5 J5: where members coordinate a member leaves a busy group, and nobody stops: neither for its end nor for the view without it
members 3
coordinator hosted
ops 80
work 1 ms
when 2 delivers op 9: leave 2
expect 2 left
expect never coordinator sends Prepare epoch 2
expect never coordinator sends Prepare epoch 3
expect op 79 participants 0 1
expect epoch 3
