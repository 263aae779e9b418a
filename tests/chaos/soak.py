#!/usr/bin/env python3
"""A long chaos run in one report: soak.py TOOLS --faults N [--seed S] [--transport T]. Without a transport three fifths of the faults
strike members on four hosts with both transports, and two of these three spare the coordinator, so that the job does not begin anew
and what its members hold can be compared to the end; a fifth strikes over TCP without step marks, and a fifth on one host over
shared memory. Ends with 77 where namespaces are not permitted."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import check

SKIP = 77


def legs(options):
    """(transport, steps, steady, faults)"""
    if options.transport:
        return [(options.transport, 1, 0, options.faults)]
    fifth = options.faults // 5
    return [("mixed", 1, 0, fifth), ("mixed", 1, 1, options.faults - 3 * fifth), ("tcp", 0, 0, fifth), ("shm", 1, 0, fifth)]


def run(options):
    """The reports of all legs, or none where it is not permitted."""
    reports, chaos = [], os.path.join(os.path.dirname(os.path.abspath(__file__)), "chaos.py")
    with tempfile.TemporaryDirectory() as folder:
        for number, (transport, steps, steady, faults) in enumerate(legs(options)):
            report = os.path.join(folder, "report.json")
            print(f"chaos: {faults} faults, transport {transport}, {'with' if steps else 'without'} steps, "
                  f"{'the coordinator spared, ' if steady else ''}seed {options.seed + number}", flush=True)
            done = subprocess.run([sys.executable, "-B", chaos, options.tools, "--faults", str(faults), "--seed",
                                   str(options.seed + number), "--transport", transport, "--steps", str(steps), "--steady",
                                   str(steady), "--report", report], check=False)
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
