# Q5 Q4 V3: the member that coordinates dies when one other has installed; that one is heard, and its view is the base
members 5
coordinator hosted
ops 8
count 16
when 4 sends raw op 3 to 1: kill 4
when coordinator sends Install to 2 epoch 2: kill 0
expect view 1 2 3
expect all finish
