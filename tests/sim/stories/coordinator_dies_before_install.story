# Q2 V10: the coordinator dies when it has heard that all is decided
members 4
ops 6
count 16
when 3 sends final op 3 to 0: kill 3
when 0 sends Decided epoch 2: restart coordinator
expect never anybody installs epoch 2
expect op 3 participants 0 1 2 3
expect view 0 1 2
