# Q5 J5: the member that coordinates leaves; another one takes over when it has gone
members 4
coordinator hosted
ops 10
when 1 calls op 2: leave 0
expect 0 left
expect view 1 2 3
expect all finish
