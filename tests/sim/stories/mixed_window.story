# V8: within a window op 3 is salvaged with the dead and op 4 is begun anew without
members 4
ops 8
count 16
window 6
when 3 sends final op 3 to 0: kill 3
expect op 3 verdict salvage
expect op 3 participants 0 1 2 3
expect op 4 verdict retry
expect op 4 participants 0 1 2
