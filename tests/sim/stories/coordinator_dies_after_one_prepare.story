# Q2 Q3: one member has promised a view when the coordinator dies, the others know nothing of it
members 4
ops 6
count 16
when 3 sends raw op 3 to 0: kill 3
when coordinator sends Prepare to 0 epoch 2: restart coordinator
expect never 1 hears Prepare epoch 2
expect op 3 participants 0 1 2
expect view 0 1 2
expect epoch 3
