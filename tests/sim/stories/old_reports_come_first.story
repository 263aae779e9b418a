# Q4: of a view that took somebody in, the one whom the announcement has not reached knows nothing
members 3
ops 200
work 1 ms
when 0 delivers op 3: kill 0
when 1 installs epoch 2: join 0 as again
when again sends Confirmed: slow 1 to 2 100 ms
when again installs epoch 3: restart coordinator
expect never 2 installs epoch 3
expect view 1 2 again
expect op 199 participants 1 2 again
