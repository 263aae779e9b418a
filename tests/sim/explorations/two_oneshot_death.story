# V1 V2 V3: of two members one dies at any moment of an exchange of inputs
members 2
ops 1
count 4
plan oneshot
when at any moment: kill 1 proven
expect all finish
