# V1: a defect that is said to be known, and is not there
members 3
ops 4
fails agreement
