# Q3 Q5: of those who have promised to go on without two one dies; the two hear that they are out, consent, and come back anew
members 5
coordinator hosted
ops 60
pause 3 ms
count 16
when 1 calls op 3: hiccup 1 250 ms, hiccup 2 250 ms
when coordinator sends Prepare to 4 epoch 2: kill 3 proven
expect view 0 4
expect 1 evicted
expect 2 evicted
expect lost 1 by earlier change
