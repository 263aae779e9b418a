# V1 F4: one member has all inputs of a one-shot exchange, the others lack one, its author dies
members 4
ops 6
count 4
window 1
plan oneshot
when 3 sends raw op 3 to 0: kill 3
when 0 hears raw op 3 from 3: nothing
expect op 3 verdict salvage
expect op 3 participants 0 1 2 3
