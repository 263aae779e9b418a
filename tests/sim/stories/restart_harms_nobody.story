# Q2 Q7: the coordinator is away for long; members go on, and all are found again
members 3
ops 60
work 2 ms
when 0 delivers op 4: restart coordinator after 40 ms
expect op 59 participants 0 1 2
expect epoch 1
expect note view 1 goes on unchanged
