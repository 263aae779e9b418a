# Q2 Q7: the coordinator dies when it has heard of a death, before it has said a word of it
members 4
ops 6
count 16
when 3 sends raw op 3 to 0: kill 3
when coordinator hears Evidence from 2: restart coordinator
expect op 3 verdict retry
expect op 3 participants 0 1 2
expect note reports view 1
