# F3 V5: an all-gather in place lands segments before somebody is found to have called another
members 4
ops 6
count 4
in_place
op 3 all_gather
op 3 count 5 by 3
expect op 3 mismatch
expect op 4 participants 0 1 2 3
