# Q7: a member computes for long while others wait; it is shown, and stays
members 3
ops 6
hold 2 before op 3
when 0 calls op 3, 400 ms later: let 2 go
expect note has not entered operation 3
expect op 3 participants 0 1 2
expect epoch 1
