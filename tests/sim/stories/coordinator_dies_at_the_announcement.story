# J1 Q2: the coordinator dies during a join, when it has told the root to announce
members 3
ops 100
work 1 ms
when at 30 ms: join 3 as new
when coordinator sends Announce to 0: restart coordinator
expect seen new installs epoch 2
expect view 0 1 2 new
expect op 99 participants 0 1 2 new
