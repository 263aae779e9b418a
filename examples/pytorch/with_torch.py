#!/usr/bin/env python3
"""with_torch.py SCRIPT ARGUMENTS: runs the script by a Python that has PyTorch, this one or the system's; exit code 77 if none has."""
import os
import subprocess
import sys

SKIPPED = 77


def has_torch(python):
    check = [python, "-c", "import torch; print('PyTorch', torch.__version__)"]
    try:
        return subprocess.run(check, stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


for candidate in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
    if has_torch(candidate):
        os.execv(candidate, [candidate, "-B", *sys.argv[1:]])
print("SKIPPED: no Python here has PyTorch, so that nothing of examples/pytorch/network.py has run")
sys.exit(SKIPPED)
