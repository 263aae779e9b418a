# J5 J3: all who were in leave while a newcomer enters
members 2
ops 100
work 1 ms
when at 30 ms: join 2 as new
when new installs epoch 2: leave 0, leave 1
expect 0 left
expect 1 left
expect view new
expect op 99 participants new
