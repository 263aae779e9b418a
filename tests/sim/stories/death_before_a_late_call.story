# V6 V3: somebody dies in an operation that one member has not called yet
members 4
ops 6
hold 2 before op 0
when 0 calls op 0, 20 ms later: kill 3
when 0 installs epoch 2, 20 ms later: let 2 go
expect op 0 verdict retry
expect op 0 participants 0 1 2
