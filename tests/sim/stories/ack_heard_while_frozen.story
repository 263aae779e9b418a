# V2: the last ack that a member lacks arrives between its status and Install; it delivers at once
members 4
ops 6
count 16
window 1
when 0 hears final op 3: slow 2 to 1 3150 us
when 3 delivers op 3: kill 3
when 1 sends ColumnStatus epoch 2: nothing
then 1 delivers op 3: nothing
then 1 installs epoch 2: nothing
expect op 3 verdict commit
expect op 3 participants 0 1 2 3
