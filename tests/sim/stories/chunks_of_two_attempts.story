# V3 V4: all chunks are final somewhere, one of them in another attempt than the rest
members 5
ops 6
count 16
window 1
work 5 ms
notice 100 us
when 0 completes op 2: slow 0 to 2 8 ms
when 3 sends raw op 3: slow 3 to 0 60 ms, slow 3 to 1 60 ms, slow 3 to 2 60 ms
when 4 hears final op 3 chunk 3, 5100 us later: kill 3 proven
when coordinator sends Install to 2 epoch 2: restart coordinator after 30 ms
expect never 4 installs epoch 2
expect op 3 verdict retry retry
expect op 3 participants 0 1 2 4
