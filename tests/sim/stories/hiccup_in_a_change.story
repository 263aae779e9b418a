# V10: a member loses the coordinator between Prepare and Install, and hears of both when it is back
members 4
ops 6
count 16
when 3 sends raw op 3 to 0: kill 3
when coordinator sends Install to 0 epoch 2: hiccup 1 2 ms
expect op 3 participants 0 1 2
expect view 0 1 2
