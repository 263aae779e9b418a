"""Shared by the bars: running ftar-perf, statistics, and the closing line. Not a bar itself."""

import json
import math
import os
import random
import subprocess
import sys
import tempfile


def count(name, default):
    """A number of runs: the bar's own, or a smaller one from the environment for a quick look."""
    return int(os.environ.get(name, default))


def tools():
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]):
        sys.exit(f"usage: {os.path.basename(sys.argv[0])} FOLDER-OF-BUILT-TOOLS")
    return os.path.abspath(sys.argv[1])


def say(text):
    print(text, flush=True)


class Run:
    """One finished run of ftar-perf: exit code, printed text, JSON report (None if it wrote none)."""

    def __init__(self, code, text, report):
        self.code, self.text, self.report = code, text, report

    def fault(self):
        return (self.report or {}).get("fault") or {}

    def errors(self):
        return [line for line in self.text.splitlines() if "ERROR" in line]


def perf(*arguments, timeout=600):
    """Runs ftar-perf with these arguments. A run that outlives the timeout counts as a hang (code 3)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        command = [os.path.join(tools(), "ftar-perf"), *map(str, arguments), "-J", path]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout)
        except subprocess.TimeoutExpired as late:
            return Run(3, (late.stdout or b"").decode(errors="replace") + "\n# ERROR: out of time\n", None)
        report = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        return Run(done.returncode, done.stdout.decode(errors="replace"), report)


def follow(*command):
    """Runs another program and passes on what it says: its exit code and its lines."""
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as run:
        for line in run.stdout:
            lines.append(line.strip())
            say("  " + line.rstrip())
    return run.returncode, [line for line in lines if line] or ["it said nothing"]


def complain(run, what):
    """Prints what went wrong in a run that should have ended well; answers whether it did go wrong."""
    if run.code == 0:
        return False
    say(f"  {what}: exit code {run.code}")
    for line in run.errors()[:5]:
        say("    " + line)
    if not run.errors():
        say("    " + "\n    ".join(run.text.splitlines()[-3:]))
    return True


def quantile(sample, part):
    if not sample:
        return math.nan
    ordered = sorted(sample)
    at = part * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def median(sample):
    return quantile(sample, 0.5)


def median_interval(sample, rounds=4000):
    """95 % bootstrap interval of the median; the same sample gives the same interval."""
    dice = random.Random(1)
    medians = [median([dice.choice(sample) for _ in sample]) for _ in range(rounds)]
    return quantile(medians, 0.025), quantile(medians, 0.975)


def finish(name, value, goal, good):
    """The line that scripts/show promises, and the exit code."""
    say(f"{name}: {value} (goal {goal})")
    sys.exit(0 if good else 1)
