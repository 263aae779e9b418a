# Q4: of three one dies, and the others do not reach each other; neither goes on, whatever proof it has of the death
members 3
coordinator hosted
ops 8
when 1 calls op 3: part 0 from 1, kill 2 proven
expect 0 waits
expect 1 waits
