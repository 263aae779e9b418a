# V3 F5: the one who had to own the dead one's chunk dies when it has installed
members 4
ops 6
count 16
when 3 sends raw op 3 to 0: kill 3
when 0 installs epoch 2: kill 0
expect op 3 verdict retry retry
expect op 3 participants 1 2
