# Q4: the one of two that coordinates is gone, and nobody knows whether it lives; the other waits
members 2
coordinator hosted
ops 8
when 1 calls op 3: kill 0
expect 1 waits
expect note no quorum
