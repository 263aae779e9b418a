# Q7: one link has failed for long when another fails for a moment; only the first one counts
members 4
ops 40
work 1 ms
when 1 delivers op 9: cut 0 3
when 1 delivers op 9, 10 ms later: flap 1 2 5 ms
expect lost 3 by link
expect 3 evicted
expect view 0 1 2
