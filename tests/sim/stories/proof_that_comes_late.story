# Q4: who was left out sees that the others of its view are dead; that says nothing about those who came later, and where the job meets it hears of them
members 2
coordinator hosted
ops 40
pause 5 ms
when 0 calls op 3: hiccup 1 300 ms, join 2 as new
when new delivers op 15: kill 0 proven
expect 1 evicted
expect view new
expect op 20 participants new
