#!/usr/bin/env python3
"""threads_bound.py [--quick] [--perf FTAR-PERF] [--kernels FTAR-KERNELS]: ranks that are threads of one process, on one GPU, against
what the GPU's memory allows.

A direct two-shot reads every input once and writes every output once: N ranks move 2 N bytes of memory for each byte of a rank's vector.
With the card's own copy at B bytes per second, reads and writes together, no all-reduce beats B / (2 N). Each row is measured as libftar
comes, with more blocks, with larger pieces, and by the resident executor; the best one counts, and is named. Exit code: 0 all rows at
their goal, 4 not, 1 a run of ftar-perf was wrong, 77 nothing can be measured here (no GPU, or an ftar-perf without device memory).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import cuda_libraries

SKIPPED, USAGE, NOT_MET = 77, 2, 4
GOAL = 0.85
RANKS = (2, 4, 8)
MIB = 1 << 20


def card(kernels, seconds):
    """Bytes per second (in GB) that the card's own copy moves, and twice its multiprocessors; or None and why."""
    try:
        done = subprocess.run([kernels, "--json", "--device-only", "--quick", "--seconds", str(seconds)], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, timeout=60 + seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for row in rows:
        if "no_device" in row:
            return None, row["no_device"]
    copies = [row["touched_gbs"] for row in rows if row.get("kernel") == "card's copy" and row["cache"] == "out"]
    if not copies:
        return None, f"{kernels} has measured no copy"
    return (copies[0], max(row["blocks"] for row in rows)), ""


def settings(ranks, blocks, quick):
    """Name and knobs of each way to run."""
    share = max(2, blocks // ranks)
    large = ["chunk=4M"]
    wide = (f"{share} blocks, pieces of 4 MiB", [f"gpu_blocks={share}", *large])
    if quick:
        return [wide]
    return [("as it comes", []), (f"{share} blocks", [f"gpu_blocks={share}"]), wide,
            ("resident, 4 blocks", ["gpu_executor=resident", "gpu_blocks=4", *large])]


def measure(options, ranks, sizes, knobs):
    """{size: GB/s}, or None and why not."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [options.perf, "-n", str(ranks), "--threads", "--memory", "device", "--placement", "out", "--iters",
                   str(options.iterations), "-w", "3", "-T", "30", "--sizes", ",".join(map(str, sizes)), "-J", report]
        for knob in knobs:
            command += ["--set", knob]
        command += cuda_libraries.options(options.arguments, cuda_runtime="cudart")
        try:
            done = subprocess.run(command + options.arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                  timeout=options.timeout, check=False)
        except OSError as error:
            return None, str(error), USAGE
        except subprocess.TimeoutExpired:
            return None, "did not end in time", 3
        if done.returncode != 0 or not os.path.exists(report):
            return None, (done.stdout.strip().splitlines() or ["nothing said"])[-1], done.returncode
        with open(report, encoding="utf-8") as file:
            return {row["size"]: row["out_of_place"]["alg_bw"] for row in json.load(file)["results"]}, "", 0


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--perf", default="ftar-perf")
    parser.add_argument("--kernels", default="", help="ftar-kernels (beside ftar-perf)")
    parser.add_argument("--copy", type=float, help="GB/s of the card's copy, instead of measuring it")
    parser.add_argument("--blocks", type=int, default=264, help="with --copy: twice the multiprocessors")
    parser.add_argument("--sizes", default="", help="MiB, joined by commas")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a run of ftar-perf")
    parser.add_argument("arguments", nargs="*", help="after --: for ftar-perf")
    return parser.parse_args()


def main():
    options = parse()
    kernels = options.kernels or os.path.join(os.path.dirname(options.perf), "ftar-kernels")
    found, why = ((options.copy, options.blocks), "") if options.copy else card(kernels, 5)
    if found is None:
        print(f"SKIPPED: {why}")
        return SKIPPED
    copy, blocks = found
    sizes = [int(float(size) * MIB) for size in options.sizes.split(",")] if options.sizes else [128 * MIB] + [256 * MIB] * (not options.quick)
    print(f"the card's copy moves {copy:.0f} GB/s; the bound of N ranks is that by 2 N")
    good = right = True
    for ranks in RANKS:
        bound, best = copy / (2 * ranks), {}
        for name, knobs in settings(ranks, blocks, options.quick):
            rates, why, code = measure(options, ranks, sizes, knobs)
            if rates is None:
                print(f"{ranks} ranks, {name}: {why}")
                if code == USAGE:
                    print(f"SKIPPED: {why}")
                    return SKIPPED
                right = False
                continue
            for size in sizes:
                print(f"{ranks} ranks {size / MIB:8.1f} MiB  {name:28} {rates[size]:8.1f} GB/s of {bound:.1f}: {rates[size] / bound:.3f}")
                best[size] = max(best.get(size, (0, "nobody")), (rates[size] / bound, name))
        for size in sizes:
            ratio, name = best.get(size, (0, "not measured"))
            good = good and ratio >= GOAL
            verdict = "MET" if ratio >= GOAL else "NOT MET"
            print(f"bar {ranks} threads, {size / MIB:g} MiB  {100 * ratio:.1f} % of the two-shot bound, {name} (goal {100 * GOAL:.0f} %): {verdict}")
    return (0 if good else NOT_MET) if right else 1


if __name__ == "__main__":
    sys.exit(main())
