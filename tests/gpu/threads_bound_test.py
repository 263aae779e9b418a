#!/usr/bin/env python3
"""threads_bound_test.py FTAR-PERF FAKE-GPU: threads_bound.py over a GPU that is none, whose copy is as fast as it is told to be."""
import os
import subprocess
import sys

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "threads_bound.py")


def run(perf, copy, arguments):
    command = [sys.executable, "-B", SCRIPT, "--perf", perf, "--quick", "--sizes", "0.25", "--iterations", "2", "--copy", str(copy),
               "--blocks", "16", "--", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False)
    print(done.stdout, flush=True)
    return done.returncode, done.stdout


def main():
    perf, fake = sys.argv[1:]
    over_fake = ["--cuda-runtime", fake, "--set", f"gpu={fake}"]
    code, text = run(perf, 0.001, over_fake)
    assert code == 0 and text.count(": MET") == 3, "each number of ranks beats a card that is slow enough"
    code, text = run(perf, 1e9, over_fake)
    assert code == 4 and text.count("NOT MET") == 3, "and none one that is too fast"
    code, _ = run(perf, 0.001, [*over_fake, "--min-bw", "1e9"])
    assert code == 1, "a run that fails is no bar that is not met"
    code, text = run(perf, 1, ["--cuda-runtime", "/no/such/library"])
    assert code == 77 and "SKIPPED" in text, "where nothing is measured, nothing is shown"


main()
