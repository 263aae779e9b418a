# Q5 J5: one of four has left as planned; when the host dies, those who are left are a majority of those who were
members 4
ops 60
coordinator hosted
work 1 ms
when at 24 ms: leave 3
when 3 ends, 10 ms later: kill 0
expect 3 left
expect view 1 2
expect op 59 participants 1 2
