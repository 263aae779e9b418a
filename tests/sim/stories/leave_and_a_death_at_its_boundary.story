# J1 J5: somebody dies when a leaver passes its end, before it is released
members 4
ops 80
work 1 ms
when 3 delivers op 9: leave 3
when 1 sends LeaveReady: kill 2
expect 3 left
expect view 0 1
expect op 79 participants 0 1
