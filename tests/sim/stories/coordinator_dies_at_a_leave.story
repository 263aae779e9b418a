# J5 J1: the coordinator dies when it has told the root to announce a leaver's end
members 3
ops 100
work 1 ms
when 2 delivers op 9: leave 2
when coordinator sends Announce to 0: restart coordinator
expect 2 left
expect op 99 participants 0 1
