# J4 J1: the root dies when it has begun a step that it alone has marked
members 3
ops 60
steps of 3
work 1 ms
when 0 sends StepMark to 1 step 3: kill 0
expect view 1 2
expect op 59 participants 1 2
