# V3 J3: all operations that the window allows are under way when somebody dies
members 4
ops 12
count 16
window 6
work 2 ms
when 3 sends raw op 11 to 0: kill 3
expect op 6 participants 0 1 2
expect op 11 participants 0 1 2
expect op 5 participants 0 1 2 3
