# V3 V1: all are complete and lack one ack; its sender dies, and stays a participant
members 4
ops 6
count 16
when 0 hears final op 3: slow 3 to anybody 30 ms
when 3 completes op 3: kill 3
expect op 3 verdict commit
expect op 3 participants 0 1 2 3
expect op 4 participants 0 1 2
