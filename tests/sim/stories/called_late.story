# V6 F2: one member opens its group when the others' inputs have long arrived
members 3
ops 6
hold 2 before op 0
when 0 calls op 0, 60 ms later: let 2 go
expect op 0 participants 0 1 2
expect epoch 1
