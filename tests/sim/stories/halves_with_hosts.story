# Q4 Q5: two halves, each with one who would coordinate; the half with the first member goes on, the other waits
members 4
coordinator hosted
ops 8
count 16
when 1 calls op 3: part 0 1 from 2 3
expect view 0 1
expect 2 waits
expect 3 waits
