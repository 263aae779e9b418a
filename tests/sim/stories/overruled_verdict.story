# V6: a verdict is kept for a call that comes late; all who had made that call die before
members 5
ops 6
count 16
op 3 broadcast root 0
hold 2 before op 3
hold 3 before op 3
when 1 hears final op 3 chunk 3: kill 4
when 3 installs epoch 2: kill 0, kill 1
when 3 installs epoch 3, 10 ms later: let 2 go, let 3 go
expect op 3 absent
expect op 3 delivered by 2 3
expect op 4 participants 2 3
