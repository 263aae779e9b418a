#!/usr/bin/env python3
"""A long chaos run in one report: soak.py TOOLS --faults N [--seed S] [--transport T]. Without a transport half of the faults
less a tenth strike members on four hosts with both transports, and three of these four spare the coordinator, so that the job does not
begin anew and what its members hold can be compared to the end; a tenth strikes over TCP without step marks, a tenth on one host over
shared memory, a tenth members behind relays, and three tenths members that coordinate themselves, in each of the first three ways. Ends
with 77 where namespaces are not permitted."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import check

SKIP = 77


def legs(options):
    """(faults, what chaos.py is to be told)"""
    if options.transport:
        return [(options.faults, ["--transport", options.transport])]
    tenth = options.faults // 10
    apart, one_host = ["--transport", "tcp", "--steps", "0"], ["--transport", "shm"]
    hosted = [(tenth, way + ["--hosted", "1"]) for way in ([], apart, one_host)]
    legs_of_one = [(tenth, []), (options.faults - 7 * tenth, ["--steady", "1"]), (tenth, apart), (tenth, one_host)]
    return legs_of_one + [(tenth, ["--relays", "1"])] + hosted


def run(options):
    """The reports of all legs, or none where it is not permitted."""
    reports, chaos = [], os.path.join(os.path.dirname(os.path.abspath(__file__)), "chaos.py")
    with tempfile.TemporaryDirectory() as folder:
        for number, (faults, more) in enumerate(legs(options)):
            report, seed = os.path.join(folder, "report.json"), options.seed + number
            print(f"chaos: {faults} faults, seed {seed}, {' '.join(more) or 'as usual'}", flush=True)
            done = subprocess.run([sys.executable, "-B", chaos, options.tools, "--faults", str(faults), "--seed", str(seed),
                                   "--report", report] + more, check=False)
            if done.returncode == SKIP:
                return None
            if not os.path.exists(report):
                sys.exit(f"chaos ended with {done.returncode} and without a report")
            with open(report, encoding="utf-8") as file:
                reports.append(json.load(file))
            os.unlink(report)
    return reports


def main():
    parser = argparse.ArgumentParser(description="A long chaos run")
    parser.add_argument("tools")
    parser.add_argument("--faults", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--transport", choices=("tcp", "shm", "mixed"))
    options = parser.parse_args()
    reports = run(options)
    if reports is None:
        sys.exit(SKIP)
    result = check.merge(reports)
    print("\nall together" + check.tell(result))
    print("soak: " + check.line(result))
    sys.exit(1 if result["errors"] else 0)


main()
