#!/usr/bin/env python3
"""fresh_seeds.py FTAR-SIM COUNT WEATHER: so many simulated jobs that no run of an older tree has seen.

Their first seed is made of the tree that is tested: each commit has others, and a run that failed can be repeated. Where there is
no repository the day decides.
"""
import datetime
import os
import subprocess
import sys


def first_seed():
    top = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(["git", "-C", top, "rev-parse", "HEAD^{tree}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    if done.returncode == 0:
        return int(done.stdout[:10], 16)
    return datetime.date.today().toordinal() * 10**6


def main():
    seeds = f"{first_seed()}:{sys.argv[2]}"
    print("seeds", seeds, flush=True)
    sys.exit(subprocess.call([sys.argv[1], "--seeds", seeds, "--weather", sys.argv[3]]))


main()
