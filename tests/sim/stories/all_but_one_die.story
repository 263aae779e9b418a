# Q7 V3: all replicas but one die at once; the links that the survivor misses all end in itself
members 5
ops 6
count 20
when 4 sends raw op 3: kill 1, kill 2, kill 3, kill 4
expect op 3 participants 0
expect view 0
expect note 4 of 5 connections closed at once
