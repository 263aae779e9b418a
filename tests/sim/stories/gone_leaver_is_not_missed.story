# J5 Q3: a leaver has gone, a Prepare without it is promised, and the coordinator dies
members 4
ops 100
work 1 ms
when 3 delivers op 9: leave 3
when 3 ends: kill 2
when coordinator sends Prepare to 0 epoch 3: restart coordinator
expect 3 left
expect unsaid lost [earlier change] replica 3
expect view 0 1
