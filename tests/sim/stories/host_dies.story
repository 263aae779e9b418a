# Q5 Q4: the member that coordinates dies in an operation; the next one takes over and ends it
members 4
coordinator hosted
ops 8
count 16
when 1 sends final op 3 to 2: kill 0
expect op 3 participants 0 1 2 3
expect op 4 participants 1 2 3
expect view 1 2 3
