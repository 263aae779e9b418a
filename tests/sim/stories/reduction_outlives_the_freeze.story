# V2: reductions that began before the freeze end behind it, and count no more
members 4
ops 6
count 16
window 1
work 6 ms
when 3 delivers op 2: nothing
then 0 hears raw op 3 from 3: kill 3
expect op 3 verdict retry
expect op 3 participants 0 1 2
