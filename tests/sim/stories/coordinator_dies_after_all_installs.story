# Q2: the coordinator dies right behind its last Install; there is nothing to be changed
members 4
ops 8
count 16
when 3 sends raw op 3 to 0: kill 3
when coordinator sends Install to 2 epoch 2: restart coordinator
expect op 3 participants 0 1 2
expect epoch 2
expect note view 2 goes on unchanged
