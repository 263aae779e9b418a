# J3 Q3: a replica dies, and is started again in the same millisecond, while its place is still held
members 3
ops 60
work 2 ms
when 2 delivers op 3: kill 2, join 2 as again
expect note its place is held
expect view 0 1 again
expect op 59 participants 0 1 again
