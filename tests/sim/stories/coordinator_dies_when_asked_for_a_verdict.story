# V5: the coordinator dies before it hears that calls differ; the new one is asked again
members 3
ops 6
op 3 count 5 by 1
when 0 sends AskPrepare: restart coordinator
expect op 3 mismatch
expect op 5 participants 0 1 2
