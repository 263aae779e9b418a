# V1 Q7: nothing happens, and nobody says a word about views after the first
members 4
ops 8
window 4
expect op 7 participants 0 1 2 3
expect epoch 1
expect never coordinator sends Prepare epoch 2
