# J5: a column announces an end and the coordinator does not hear so; the leaver goes, and says goodbye when the plan has been given up
members 3
shards 2
ops 100
work 1 ms
when 2.0 delivers op 9: leave 2
when coordinator sends Announce: slow 0.0 to coordinator 40 ms, slow 0.1 to coordinator 40 ms, slow 1.0 to 0.0 40 ms, slow 2.1 to coordinator 24 ms
expect 2 left
expect view 0.0 0.1 1.0 1.1
