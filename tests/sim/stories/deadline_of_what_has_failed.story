# V5: what has failed waits for one more credit when its deadline passes; nobody is to blame, not even who has yet to call it
members 4
ops 8
op 3 count 5 by 0
op 3 deadline 20 ms
hold 2 before op 3
when 2 sends ColumnStatus to 0 epoch 2: slow 2 to 1 40 ms
when at 75 ms: let 2 go
expect op 3 mismatch
expect view 0 1 2 3
