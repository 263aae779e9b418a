# Q7: a host loses power while the coordinator is away; who does not come back is missed in time
members 4
ops 6
count 16
when 3 sends raw op 3 to 0: restart coordinator, kill 3 unnoticed
expect op 3 participants 0 1 2
expect lost 3 by control connection
expect note did not come back
