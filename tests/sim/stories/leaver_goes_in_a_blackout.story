# J5 Q7: one of two who leave is released while all have lost the coordinator; it says goodbye when that is back, and nobody is lost for it
members 3
shards 2
ops 100
work 1 ms
when 2.0 delivers op 9: leave 2
when anybody sends LeaveReady to 0.1: hiccup 0.0 8 ms, hiccup 0.1 8 ms, hiccup 1.0 8 ms, hiccup 1.1 8 ms, hiccup 2.0 8 ms, hiccup 2.1 8 ms, slow 1.0 to 0.0 60 ms
expect 2 left
expect view 0.0 0.1 1.0 1.1
expect epoch 2
