# V5: one member calls something else; all learn of it, and all go on
members 3
ops 6
op 3 count 5 by 1
expect op 2 ok
expect op 3 mismatch
expect op 4 participants 0 1 2
expect view 0 1 2
expect note asks for a verdict on operation 3
