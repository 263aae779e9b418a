# F4: a member stands still while it reads the lanes, and is evicted; others write over what they have delivered. Then it hears an old Prepare and old acks
members 4
lanes
plan oneshot
count 4
window 2
ops 60
work 5 ms
op 6 plan direct
when 2 calls op 5, 3 ms later: stop 0
then 1 calls op 6: nothing
then at 60 ms: evict 3 by 1
then 1 delivers op 40: continue 0
expect 0 evicted
expect 3 evicted
expect never 0 delivers op 2
