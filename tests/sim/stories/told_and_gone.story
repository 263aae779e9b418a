# Q4 Q2: who holds the newest view tells a restarted coordinator of it and dies; whom it had left behind comes later
members 3
ops 60
work 1 ms
when 0 delivers op 3: cut 0 coordinator
then 1 delivers op 12: kill 2 unnoticed, restart coordinator
then coordinator hears Hello from 1: kill 1
then at 60 ms: mend 0 coordinator
expect 0 waits
