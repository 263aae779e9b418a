# J3: a newcomer enters a busy group at an operation; nothing stops, nobody freezes
members 2
ops 80
work 1 ms
when at 30 ms: join 2 as new
expect never coordinator sends Prepare epoch 2
expect never coordinator sends Prepare epoch 3
expect seen 0 sends Announce to new
expect op 79 participants 0 1 new
expect epoch 2
