# Q4 J1: two coordinators die; the plan that the first one announced to the newcomer alone has a higher number than the view that the second one made
members 4
coordinator hosted
ops 60
work 1 ms
when at 25 ms: join 5 as one
when coordinator sends Confirm to one: kill one, join 4 as new
then new hears Confirm: slow 0 to 1 40 ms, slow 0 to 2 40 ms, slow 0 to 3 40 ms
then new installs epoch 3: kill 0 proven, hiccup new 25 ms
then 1 installs epoch 2, 20 ms later: kill 1 proven
expect one anyhow
expect new evicted
expect view 2 3
expect op 59 participants 2 3
