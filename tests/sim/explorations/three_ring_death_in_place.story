# V3 F3: of three members of a ring in place one dies at any moment
members 3
ops 1
count 12
plan ring
in_place
all_call
overtakings 2
when at any moment: kill 1 proven
expect all finish
