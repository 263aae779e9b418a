# J4 J5: with step marks a leaver stands in up to the end of a step
members 3
ops 60
steps of 3
work 1 ms
when 2 begins step 2: leave 2
expect 2 left
expect op 59 participants 0 1
expect epoch 2
