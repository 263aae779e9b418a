# J4: a newcomer becomes the root; where its first step begins it knows from a root long dead
members 2
ops 30
steps of 2
work 1 ms
hold 1 before op 10
when coordinator sends Install to 1 epoch 1: slow 1 to coordinator 8 ms
when at 25 ms: join 2 as first, join 3 as second
when 0 sends Reserved: slow coordinator to 0 8 ms
when 1 delivers op 9: slow 0 to 1 200 ms
when first hears StepMark step 5 from 0: kill 0, slow 1 to first 200 ms
when 1 installs epoch 3: let 1 go
when second begins step 5: kill 1
expect seen 0 begins step 5
expect never 1 installs epoch 2
expect never first installs epoch 3
expect op 10 participants first second
expect view first second
