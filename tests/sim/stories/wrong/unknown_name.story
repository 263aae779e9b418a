# V1: a member that is none
members 3
ops 4
when 1 calls op 2: kill 4
expect all finish
