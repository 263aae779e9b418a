# J5 Q2: the coordinator dies when a leaver has said goodbye, and does not take it for lost
members 3
ops 100
work 1 ms
when 2 delivers op 9: leave 2
when 2 sends Goodbye: restart coordinator
expect 2 left
expect never coordinator sends Evicted
expect op 99 participants 0 1
