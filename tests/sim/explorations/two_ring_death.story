# V1 V2 V3: of two members one dies at any moment of a ring, and its connections are seen to close
members 2
ops 1
count 8
plan ring
all_call
when at any moment: kill 1
expect all finish
