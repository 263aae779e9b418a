# V5 V7: all weights of an operation are 0
members 3
ops 6
op 3 weight 0
expect op 3 absent
expect op 4 participants 0 1 2
