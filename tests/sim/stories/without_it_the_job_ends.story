# Q7: the connection of one process of the only replica is away for a while; without it the job would end, so it is waited for
members 1
shards 3
ops 40
pause 3 ms
when 0.1 calls op 3: hiccup 0.1 60 ms
expect never coordinator sends Prepare epoch 2
expect all finish
