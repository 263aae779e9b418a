# Q2: a Prepare comes again when its change is long over
members 4
ops 40
work 1 ms
when 3 delivers op 3: kill 3
when 2 installs epoch 2: kill 2
when coordinator sends Prepare to 1 epoch 2: repeat after 30 ms
expect op 39 participants 0 1
expect epoch 3
