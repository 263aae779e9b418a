# J5: a leaver is killed between its release and its goodbye; nobody needs it any more
members 3
ops 80
work 1 ms
when 2 delivers op 9: leave 2
when 0 sends Release to 2: kill 2
expect never 2 sends Goodbye
expect view 0 1
expect op 79 participants 0 1
