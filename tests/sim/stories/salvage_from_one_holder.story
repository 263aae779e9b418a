# V4: a chunk's owner dies with the result at one survivor alone, who serves it to the others
members 4
ops 6
count 16
when 3 sends final op 3 to 0: kill 3
expect op 3 verdict salvage
expect op 3 participants 0 1 2 3
expect seen 0 hears Want op 3 from 1
