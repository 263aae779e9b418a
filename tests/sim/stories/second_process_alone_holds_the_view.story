# Q5: of the first view one process alone has heard, and it is the second of its replica; the member that takes over dies when all have promised its change; those who wait without a view take over in turn
members 5
shards 2
coordinator hosted
ops 4
count 16
when coordinator sends Install to 0 epoch 1: hiccup 1 1 ms, hiccup 2 1 ms, hiccup 3 1 ms, hiccup 4.0 1 ms
then 4.1 installs epoch 1: kill 0
when 4.1 sends ColumnStatus to 1.1: kill 1
expect view 2.0 2.1 3.0 3.1 4.0 4.1
expect all finish
