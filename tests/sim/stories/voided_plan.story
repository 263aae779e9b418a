# J1: a plan is void since its newcomer died, and the next newcomer gets a number of its own
members 2
ops 120
work 1 ms
when at 30 ms: join 2 as first
when coordinator sends Confirm to first: kill first
when at 45 ms: join 3 as second
expect never anybody installs epoch 2
expect view 0 1 second
expect op 119 participants 0 1 second
