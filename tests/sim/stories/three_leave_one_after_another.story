# J3 J5: leaves follow closely; each next plan waits until the boundary before is passed
members 4
ops 200
window 6
steps of 2
work 1 ms
when 0 begins step 1, 1 ms later: leave 1
when 0 begins step 2, 1 ms later: leave 3
when 0 begins step 3: leave 2
expect 1 left
expect 2 left
expect 3 left
expect op 199 participants 0
