# Q7: one link has failed for long when another fails for a moment; only the first one counts
members 4
ops 40
work 1 ms
when 1 delivers op 3: cut 0 1
when 1 delivers op 3, 9 ms later: flap 0 3 5 ms
expect lost 1 by link
expect 1 evicted
expect view 0 2 3
