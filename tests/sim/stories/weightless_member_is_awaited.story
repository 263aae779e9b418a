# V1 V7: a member of weight 0 hears the result late; nobody delivers before it, and somebody dies
members 4
ops 6
count 16
window 1
op 3 weight 0 by 2
when 2 sends raw op 3: slow 0 to 2 10 ms
when 0 completes op 3, 1 ms later: kill 3
expect op 3 verdict salvage
expect op 3 participants 0 1 3
expect op 3 members 0 1 2 3
