# V5 V7: the only member whose input counts dies before it has shown it to all
members 4
ops 6
count 16
op 3 weight 0 by 0
op 3 weight 0 by 1
op 3 weight 0 by 2
when 3 sends raw op 3 to 0: kill 3
expect op 3 absent
expect op 3 members 0 1 2
