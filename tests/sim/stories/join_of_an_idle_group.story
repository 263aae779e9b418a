# J3: nothing is in flight, so the newcomer comes by Prepare and Install
members 2
ops 12
hold 0 before op 6
hold 1 before op 6
when at 60 ms: join 2 as new
when new installs epoch 3, 5 ms later: let 0 go, let 1 go
expect never anybody sends Announce
expect op 5 participants 0 1
expect op 6 participants 0 1 new
