# V1: one member has the last ack of the dead and delivers, the others lack it
members 4
ops 6
count 16
window 1
when 3 sends raw op 3: slow 3 to 1 3 ms, slow 3 to 2 3 ms
when 3 sends ack op 3 to 0: kill 3
expect op 3 participants 0 1 2 3
