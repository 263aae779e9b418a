# V1: a story that cannot fail
members 3
ops 4
