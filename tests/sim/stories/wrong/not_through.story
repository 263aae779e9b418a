# V1: a member waits for leave to call, which it never gets
members 3
ops 4
hold 0 before op 3
expect all finish
