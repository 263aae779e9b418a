# Q3 Q4: the quorum is lost in the change behind an announcement; who was announced is in the one that follows when it is back
members 3
ops 40
coordinator hosted
work 1 ms
when at 24 ms: stop 2
when at 70 ms: join 3 as new
when 0 sends Reserved: kill 1 proven, slow coordinator to 0 5 ms
when coordinator sends NoQuorum to 0, 40 ms later: continue 2
expect seen 0 installs epoch 2
expect op 39 participants 0 2 new
