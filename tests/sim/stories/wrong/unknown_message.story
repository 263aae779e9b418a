# V1: a message that is none
members 3
ops 4
when 1 sends Hullo to 0: kill 1
expect all finish
