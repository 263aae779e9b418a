# J1 J5: the coordinator dies when one column has announced a leaver's end and the other has not
members 2
shards 2
ops 100
work 1 ms
when 1.0 delivers op 9: leave 1
when coordinator sends Announce to 0.0: restart coordinator
expect seen 0.0 installs epoch 2
expect never 0.1 installs epoch 2
expect 1 left
expect view 0.0 0.1
