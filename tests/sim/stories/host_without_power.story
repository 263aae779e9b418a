# Q7: a host loses power; nothing closes, and only its silence tells
members 4
ops 6
when 2 sends raw op 3: kill 2 unnoticed
expect lost 2 by silence
expect view 0 1 3
