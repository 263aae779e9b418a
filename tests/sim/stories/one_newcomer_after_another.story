# J3: a second newcomer comes while the first one's boundary is ahead; its own rides on a later one
members 2
ops 160
window 6
work 2 ms
when at 30 ms: join 2 as first
when first installs epoch 2: join 3 as second
expect epoch 3
expect op 159 participants 0 1 first second
