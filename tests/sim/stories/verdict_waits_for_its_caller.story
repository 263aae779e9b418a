# V6: a member that has not called a failed operation yet hears the same when it does
members 3
ops 6
op 3 count 5 by 1
hold 2 before op 3
when 0 delivers op 3, 20 ms later: let 2 go
expect op 3 mismatch
expect op 3 delivered by 0 1 2
