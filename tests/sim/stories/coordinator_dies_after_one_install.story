# Q4 V3: one member, not the leader, has installed and goes on; the others have promised
members 4
ops 8
count 16
when 3 sends raw op 3 to 0: kill 3
when coordinator sends Install epoch 2: slow coordinator to 0 0 ms
when coordinator sends Install to 0 epoch 2: restart coordinator
expect seen 0 installs epoch 2
expect never 1 installs epoch 2
expect op 3 participants 0 1 2
