# V1: a word that is none
members 3
ops 4
membres 4
expect all finish
