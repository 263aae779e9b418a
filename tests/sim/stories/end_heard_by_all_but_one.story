# J5: a leaver that nobody needs any more loses its link to one who waits for its word; it is not let go before it is missed
members 3
ops 40
hold 0 before op 4
hold 1 before op 4
hold 2 before op 4
when at 25 ms: leave 2
when 0 installs epoch 3: cut 1 2
when at 40 ms: let 0 go, let 1 go
expect 2 anyhow
expect op 39 participants 0 1
expect lost 2 by link
