# Q1 Q2: the new coordinator dies in the same change as the old one
members 4
ops 6
count 16
when 3 sends raw op 3 to 0: kill 3
when coordinator sends Prepare to 0 epoch 2: restart coordinator
when coordinator sends Prepare to 1 epoch 3: restart coordinator
expect op 3 participants 0 1 2
expect epoch 4
