"""Shared by the bars and perf/compare: running ftar-perf, statistics, and the closing line. Not a bar itself."""

import functools
import json
import math
import os
import shutil
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


@functools.cache
def ahead_of_others():
    """What puts a program ahead of all others on its processors, where that is allowed: they make its times vary more than what is measured."""
    prefix = ["chrt", "-f", "1"]
    allowed = shutil.which("chrt") and subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL).returncode == 0
    return prefix if allowed else []


def perf(*arguments, timeout=600, prefix=()):
    """Runs ftar-perf with these arguments. A run that outlives the timeout counts as a hang (code 3)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        command = [*prefix, os.path.join(tools(), "ftar-perf"), *map(str, arguments), "-J", path]
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


def median_interval(sample):
    """95 % interval of the median by order statistics, as ftar-perf has it (perf/stats.h)."""
    if not sample:
        return math.nan, math.nan
    ordered, out = sorted(sample), 0
    ways, total = 1, 1  # whole numbers, since some thousand throws have more ways than a float holds
    while True:
        ways = ways * (len(ordered) - out) // (out + 1)
        total += ways
        if 40 * total > 2 ** len(ordered) or 2 * (out + 1) >= len(ordered):
            return ordered[out], ordered[-1 - out]
        out += 1


def pairs(number, first, second):
    """Ratios of what two functions answer, called in pairs whose order alternates, so that a drift of the machine cancels;
    and how many pairs failed, which is where one of them answers None."""
    ratios, failed = [], 0
    for pair in range(number):
        values = {}
        for function in (first, second) if pair % 2 == 0 else (second, first):
            values[function] = function()
        if None in values.values():
            failed += 1
        else:
            ratios.append(values[first] / values[second])
    return ratios, failed


def compare(*arguments):
    """What perf/compare finds: its rows; none when it failed."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "perf", "compare")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "compare.json")
        code, _ = follow(script, tools(), *map(str, arguments), "--json", path)
        if code != 0 or not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return json.load(file)["results"]


def ahead(rows, least):
    """Holds `least(size)` against how many times as fast as the best rival each row is; the worst as text, and whether all
    are good. Rivals with different congestion controls each count."""
    worst, good, where = math.inf, bool(rows), "no row"
    for row in rows:
        for control, ratios in row["times_as_fast"].items():
            goal, middle = least(row["size"]), median(ratios)
            good = good and middle >= goal  # not a number is not good
            if not middle / goal >= worst:
                worst, where = middle / goal, f"{middle:.3f} at {row['size']} B{' ' + control if control else ''}"
    return where, good


def ideal_rows(*arguments, timeout=900):
    """Rows of ftar-perf --ideal, printed as they are: (size, microseconds, the ideal's, ratio)."""
    run = perf("--ideal", *arguments, timeout=timeout)
    say(run.text.rstrip())
    if complain(run, "ftar-perf --ideal"):
        return []
    return [(row["size"], row["out_of_place"]["time"], row["out_of_place_ideal"]["time"], row["out_of_place_ideal"]["ratio"])
            for row in run.report["results"]]


def finish(name, value, goal, good):
    """The line that scripts/show promises, and the exit code."""
    say(f"{name}: {value} (goal {goal})")
    sys.exit(0 if good else 1)
