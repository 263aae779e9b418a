# Q8: of two members one gives up at any moment
members 2
ops 1
count 8
plan direct
in_place
all_call
when at any moment: abort 1
expect 1 aborted
