# V1: nobody dies, and somebody is said to be missing
members 3
ops 4

expect op 3 participants 0 1
