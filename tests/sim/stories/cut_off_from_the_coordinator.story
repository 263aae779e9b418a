# Q7: a member loses the coordinator alone; it goes, and is told when the way is mended
members 4
ops 30
work 2 ms
when 1 delivers op 3: cut 1 coordinator
when 0 installs epoch 2, 100 ms later: mend 1 coordinator
expect 1 evicted
expect lost 1 by control connection
expect view 0 2 3
