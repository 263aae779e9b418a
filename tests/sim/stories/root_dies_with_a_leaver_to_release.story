# J5 J1: the root dies before it has released a leaver; the next one does
members 4
ops 80
work 1 ms
when 3 delivers op 9: leave 3
when 1 sends LeaveReady: kill 0
expect 3 left
expect seen 1 sends Release to 3
expect op 79 participants 1 2
