# Q7: the first in the list loses all its peers and keeps the coordinator; it is the smallest cover
members 4
ops 6
when 1 sends raw op 3: part 0 from 1 2 3
expect 0 evicted
expect lost 0 by link
expect view 1 2 3
