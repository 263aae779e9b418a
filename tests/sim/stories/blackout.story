# Q7: the coordinator loses all its connections for a moment, and suspects itself
members 4
ops 40
work 2 ms
when 1 delivers op 9: hiccup 0 20 ms, hiccup 1 20 ms, hiccup 2 20 ms, hiccup 3 20 ms
expect note connections closed at once
expect op 39 participants 0 1 2 3
expect epoch 1
