# V1: a moment that never comes
members 3
ops 4
when 1 sends Want: kill 1
expect all finish
