# Q3: the only old member dies while it tells the first newcomer of the second
members 1
ops 300
work 1 ms
when at 40 ms: join 1 as first
when first delivers op 100: slow 0 to first 200 ms, join 2 as second
when second installs epoch 3: kill 0
expect seen 0 sends Announce to first epoch 3
expect never first hears Announce epoch 3
expect op 299 participants first second
expect view first second
