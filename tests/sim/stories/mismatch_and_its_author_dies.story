# V5 V3: who called something else dies before it has told its status; the others agree
members 3
ops 6
op 3 count 5 by 1
when coordinator sends Prepare to 1 epoch 2: kill 1
expect op 3 ok
expect op 3 participants 0 2
expect op 3 verdict retry
