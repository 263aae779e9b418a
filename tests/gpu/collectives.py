#!/usr/bin/env python3
"""collectives.py [--quick | --train] --perf FTAR-PERF [-- OPTIONS]: libftar.so from end to end on a GPU, checked.

Every collective in both kinds of device memory, graphs, and survivors of a kill, by both executors; a line for each. With --train
examples/pytorch/train.py instead, one of whose replicas is killed and comes back. OPTIONS go to ftar-perf, or to train.py. Exit code: 0
all right, 1 something is wrong, 77 nothing can run here (no GPU, no ftar-perf; for --train, no PyTorch that sees a GPU).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import cuda_libraries

SKIPPED, USAGE, LATE = 77, 2, 3
# On a machine that has never read them PyTorch and CUDA's libraries take a minute or more to load.
LOOK_SECONDS, FIRST_SECONDS, TRAIN_SECONDS = 120, 120, 240
LOOK = "import torch; torch.zeros(1).cuda(); print(torch.cuda.get_device_name())"
TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "pytorch", "train.py")


def cases(quick):
    """Name, options, and how many ranks are there in the end."""
    every = ["--collective", "all", "--sizes", "0,4,64K,1M", "-d", "float,bfloat16", "--iters", "3", "--check-every"]
    yield "all collectives", ["-n", "3", "--memory", "device", *every], 3
    yield "graph of 4", ["-n", "2", "--memory", "device", "--graph", "-m", "4", "--sizes", "64K"], 2
    yield "one of 3 killed", ["-n", "3", "--memory", "device", "--sizes", "1M", "--iters", "40", "--fault", "kill:1@10"], 2
    if not quick:
        yield "cudaMalloc's memory", ["-n", "3", "--memory", "device-plain", *every], 3
        yield "large", ["-n", "3", "--memory", "device", "--iters", "5"], 3
        product = ["--matmul", "8192", *cuda_libraries.options([], cublas="cublas")]
        yield "beside a product", ["-n", "2", "--memory", "device", "--sizes", "64M", *product], 2


def run(command, seconds, environment=None):
    """Exit code and text."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment,
                              timeout=seconds, check=False)
    except OSError as error:
        return USAGE, str(error)
    except subprocess.TimeoutExpired as late:
        return LATE, (late.stdout or b"").decode(errors="replace") + f"\ndid not end within {seconds} s"
    return done.returncode, done.stdout


def last_line(text):
    return (text.strip().splitlines() or ["nothing said"])[-1]


def problem(report, present):
    """What is wrong in a report of ftar-perf that says that all is well; nothing if nothing is."""
    rows = [place for row in report["results"] for place in (row.get("out_of_place"), row.get("in_place")) if place]
    if not rows or any(row["nwrong"] != 0 for row in rows):
        return "wrong results, or none" if rows else "no results"
    if report["out_of_bounds"]["count"] != 0:
        return "written out of bounds"
    if not all("GPU memory" in device.get("device_info", "") for device in report["config"]["devices"]):
        return "not in a GPU's memory"
    fault = report.get("fault")
    if fault and (fault["participants_after"] != present or not report["agreed"]):
        return f"{fault['participants_after']} survivors, agreed: {report['agreed']}"
    return ""


def runtime(options):
    return cuda_libraries.options(options.arguments, cuda_runtime="cudart")


def collective(options, executor, arguments, present):
    """Exit code of ftar-perf, and what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        code, text = run([options.perf, *arguments, "--set", f"gpu_executor={executor}", "-T", "20", "-J", path, *runtime(options),
                          *options.arguments], options.timeout)
        if code != 0 or not os.path.exists(path):
            print(text, flush=True)
            return code or 1, last_line(text)
        with open(path, encoding="utf-8") as file:
            return 0, problem(json.load(file), present)


def first(options):
    """Exit code and text of a run whose only purpose is that CUDA has been read from the disk: it has the time that this takes."""
    return run([options.perf, "-n", "2", "--memory", "device", "--sizes", "64K", "--iters", "1", "-T", str(FIRST_SECONDS - 10),
                *runtime(options), *options.arguments], FIRST_SECONDS)


def collectives(options):
    good = True
    code, text = first(options)
    if code == USAGE:
        print(f"SKIPPED: {last_line(text)}")
        return SKIPPED
    for executor in ("bounded", "resident"):
        for name, arguments, present in cases(options.quick):
            code, wrong = collective(options, executor, arguments, present)
            if code == USAGE and "--matmul" in arguments:
                print(f"{executor:10} {name:20} not shown: {wrong}", flush=True)
                continue
            good = good and not wrong
            print(f"{executor:10} {name:20} {'ok' if not wrong else f'WRONG ({code}): {wrong}'}", flush=True)
    return 0 if good else 1


def missing(seconds, look):
    """Why PyTorch cannot be shown here; nothing if it can."""
    code, text = run([sys.executable, "-c", look], seconds)
    if code == 0:
        return ""
    print(text)
    return f"PyTorch has not come to a GPU within {seconds} s" if code == LATE else "no PyTorch here that sees a GPU"


def train(options):
    if not os.path.exists(options.perf):
        print("SKIPPED: no ftar-perf here, so no libftar.so beside it")
        return SKIPPED
    if "plain" not in options.arguments:
        why = missing(LOOK_SECONDS, LOOK)
        if why:
            print(f"SKIPPED: {why}")
            return SKIPPED
    folder = os.path.dirname(os.path.realpath(options.perf))
    environment = {**os.environ, "LIBFTAR": os.path.join(folder, "..", "lib", "libftar.so")}
    code, text = run([sys.executable, "-B", TRAIN, "--replicas", "3", "--steps", "1000000", "--kill", "1@10", "--limit", str(TRAIN_SECONDS),
                      "--coordinator", os.path.join(folder, "ftar-coordinator"), *options.arguments], TRAIN_SECONDS + 10, environment)
    print(text)
    return 0 if code == 0 and "'gpu_plans': 0" not in text else 1


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--perf", default="ftar-perf")
    parser.add_argument("--timeout", type=int, default=60, help="seconds for one run of ftar-perf")
    parser.add_argument("arguments", nargs="*", help="after --: for ftar-perf, or for train.py")
    return parser.parse_args()


def main():
    options = parse()
    return train(options) if options.train else collectives(options)


if __name__ == "__main__":
    sys.exit(main())
