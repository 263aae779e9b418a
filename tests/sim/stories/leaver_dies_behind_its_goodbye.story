# J5: a leaver exits right behind its goodbye, which is no loss
members 3
ops 80
work 1 ms
when 2 delivers op 9: leave 2
when 2 sends Goodbye: kill 2 proven
expect note has left as planned
expect epoch 2
expect op 79 participants 0 1
