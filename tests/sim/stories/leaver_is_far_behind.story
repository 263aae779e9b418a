# J4 J5: the others are many steps beyond a leaver's end when it comes there itself
members 3
ops 60
steps of 1
work 1 ms
when 2 begins step 3: leave 2
when 2 installs epoch 2: slow 1 to 2 60 ms
expect 2 left
expect op 59 participants 0 1
