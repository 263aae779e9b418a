# Q5 Q4: the member that coordinates and the next one die together; three of five go on
members 5
coordinator hosted
ops 8
count 16
when 2 sends raw op 3 to 3: kill 0, kill 1
expect view 2 3 4
expect all finish
