# V3 V4: only the leader hears Install, delivers on its own commit, and dies with the coordinator
members 4
ops 6
count 16
when 0 hears final op 3: slow 3 to anybody 30 ms
when 3 completes op 3: kill 3
when coordinator sends Install to 0 epoch 2: restart coordinator
when 0 delivers op 3: kill 0 proven
expect op 3 verdict commit commit
expect op 3 participants 0 1 2 3
expect op 3 delivered by 0 1 2
expect never 1 installs epoch 2
