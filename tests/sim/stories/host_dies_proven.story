# Q4 Q5: the one of two that coordinates dies; the other has seen it, and needs nobody
members 2
coordinator hosted
ops 8
when 1 calls op 3: kill 0 proven
expect view 1
expect all finish
