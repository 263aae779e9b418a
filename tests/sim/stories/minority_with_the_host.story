# Q4 Q5: the member that coordinates is cut off from most; they go on with another, and it waits
members 5
coordinator hosted
ops 8
count 16
when 1 calls op 3: part 0 1 from 2 3 4
expect view 2 3 4
expect 0 waits
expect 1 waits
