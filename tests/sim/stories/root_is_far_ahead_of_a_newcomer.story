# J4: the coordinator dies when the root alone has installed; a newcomer learns where its first step begins when the root is many beyond
members 2
ops 60
window 7
steps of 1 eager
work 1 ms
when at 22 ms: join 2 as new
when new installs epoch 2: kill 0
then coordinator sends Install to 1 epoch 3: restart coordinator
expect never new installs epoch 3
expect op 59 participants 1 new
