# V5: a mismatch and the death of somebody who had no part in it, in one change
members 4
ops 6
op 3 count 5 by 1
when 3 sends raw op 3 to 0: kill 3
expect op 3 mismatch
expect op 4 participants 0 1 2
