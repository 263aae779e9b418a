# Q7: a link fails and is back while the coordinator has lost most connections; they are back in time, and nobody is evicted for it
members 4
ops 60
work 1 ms
when 1 delivers op 5: flap 0 1 4 ms
when 1 delivers op 5, 1 ms later: hiccup 0 6 ms, hiccup 1 6 ms, hiccup 2 6 ms
expect op 59 participants 0 1 2 3
expect epoch 1
