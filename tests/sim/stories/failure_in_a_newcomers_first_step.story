# V6 J4: a newcomer does not know yet where it begins when the others deliver a failure there; in the next change it is told again
members 4
ops 60
window 6
steps of 3 eager
work 1 ms
op 15 count 5 by 2
when at 22 ms: join 4 as new
when 0 sends StepMark step 4: slow 0 to new 300 ms
when 1 calls op 15: kill 0
when 1 sends ColumnVerdicts to new: slow 1 to new 300 ms
when 2 delivers op 15: kill 1
expect op 15 mismatch
expect op 59 participants 2 3 new
