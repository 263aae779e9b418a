# J5 Q2: a leaver that knows its end dies before it, and the coordinator is restarted. Whether it had gone as planned nobody knows; nobody waits for it
members 3
ops 100
work 1 ms
when 2 delivers op 9: leave 2
when 2 installs epoch 2: kill 2, restart coordinator
expect view 0 1
