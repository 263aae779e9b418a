# J5: all who were in leave as a newcomer enters behind them; it cannot know when they are through
members 3
ops 60
work 6 ms
when 2 delivers op 3: kill 2
when 1 sends ColumnStatus epoch 2: slow 1 to coordinator 3 ms, leave 0, leave 1, join 2 as new
expect 0 left
expect 1 left
expect view new
expect op 59 participants new
