# Q5 J1: the member that coordinates dies; of the plan that it has announced the newcomer alone has heard in time, and comes when the others have gone on
members 4
coordinator hosted
ops 60
work 1 ms
when at 25 ms: join 5 as one
when coordinator sends Confirm to one: kill one, join 4 as new
then new hears Confirm: slow 0 to 1 40 ms, slow 0 to 2 40 ms, slow 0 to 3 40 ms
then new installs epoch 3: kill 0 proven, hiccup new 30 ms
expect one anyhow
expect new evicted
expect view 1 2 3
expect op 59 participants 1 2 3
expect unsaid coordinates no longer
