# V4 V6: a member calls what was salvaged when a leaver has gone since and ranks are others; it asks whom the verdict meant
members 3
ops 80
window 12
work 1 ms
op 26 count 5 by 2
op 28 broadcast root 1
hold 2 before op 28
when at 22 ms: leave 0
when 1 calls op 22: slow 1 to 0 4 ms
when 1 calls op 25: slow coordinator to 1 6 ms
when 2 installs epoch 4: let 2 go
when coordinator sends Install epoch 3, 30 ms later: join 3 as new
expect op 26 mismatch
expect op 28 verdict salvage
expect 0 left
expect op 79 participants 1 2 new
