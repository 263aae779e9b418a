# Q1 J3: the coordinator dies between the Prepares of the first view
members 3
ops 4
when coordinator sends Prepare to 1 epoch 1: restart coordinator
expect op 3 participants 0 1 2
expect view 0 1 2
