# Q7: a link fails and is up again before anybody is evicted for it
members 4
ops 40
work 1 ms
when 1 delivers op 9: flap 1 2 5 ms
expect op 39 participants 0 1 2 3
expect epoch 1
