#!/usr/bin/env python3
"""nccl_beside.py [--perf FTAR-PERF]: NCCL and libftar, the same ranks on the same GPU, every size, and their ratio.

NCCL refuses two ranks on one GPU unless they seem to be on different hosts: each process gets a NCCL_HOSTID of its own, and then NCCL
has only its network path, over loopback and pinned memory. It does not serve this case, and the rows say so; libftar does. Needs
PyTorch with CUDA. Exit code: 0 ahead at every size, 4 not, 1 a run of ftar-perf was wrong, 77 nothing can be measured here (no GPU, no
PyTorch, or an ftar-perf without device memory).
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import cuda_libraries

SKIPPED, USAGE, NOT_MET = 77, 2, 4
NETWORK_ONLY = "NCCL: its network path alone (one NCCL_HOSTID a process); it has no other for ranks that share a GPU"
ENVIRONMENT = {
    "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0", "NCCL_CUMEM_ENABLE": "0",
    "NCCL_CUMEM_HOST_ENABLE": "0", "NCCL_RAS_ENABLE": "0", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_DEBUG": "WARN",
}


def rank_main(rank, ranks, port, sizes, iterations):
    """One rank: median microseconds of an in-place float32 allreduce of each size, enqueued and waited for; checked once."""
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    for size in sizes:
        tensor = torch.full((size // 4,), float(rank + 1), device="cuda")
        dist.all_reduce(tensor)
        wrong = int((tensor != ranks * (ranks + 1) / 2).sum())
        tensor.zero_()
        taken = []
        for _ in range(iterations):
            torch.cuda.synchronize()
            start = time.perf_counter()
            dist.all_reduce(tensor)
            torch.cuda.synchronize()
            taken.append((time.perf_counter() - start) * 1e6)
        if rank == 0:
            print(json.dumps({"size": size, "us": statistics.median(taken), "wrong": wrong}), flush=True)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def nccl(ranks, sizes, iterations, timeout):
    """{size: microseconds}; what is missing did not end in time."""
    port, children = free_port(), []
    for rank in range(ranks):
        environment = {**os.environ, **ENVIRONMENT, "NCCL_HOSTID": f"ftar-{rank}"}
        command = [sys.executable, os.path.abspath(__file__), "--rank", str(rank), "--ranks", str(ranks), "--port", str(port),
                   "--sizes", ",".join(map(str, sizes)), "--iterations", str(iterations)]
        children.append(subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE if rank == 0 else sys.stderr))
    try:
        text = children[0].communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        children[0].kill()
        text = children[0].communicate()[0]
    for child in children:
        child.kill()
        child.wait()
    rows = [json.loads(line) for line in (text or "").splitlines() if line.startswith("{")]
    for row in rows:
        if row["wrong"]:
            print(f"NCCL is wrong at {row['size']} bytes")
    return {row["size"]: row["us"] for row in rows}


def ours(perf, ranks, sizes, iterations, timeout):
    """{size: microseconds} of ftar-perf in device memory, or None; why; its exit code."""
    if not perf or not os.path.exists(perf):
        return None, "no ftar-perf here", USAGE
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [perf, "-n", str(ranks), "--sizes", ",".join(map(str, sizes)), "--iters", str(iterations), "-z", "1", "-I", "1",
                   "--placement", "in", "--memory", "device", "-J", report] + cuda_libraries.options([], cuda_runtime="cudart")
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            return None, "ftar-perf did not end in time", 3
        if done.returncode != 0 or not os.path.exists(report):
            return None, "ftar-perf: " + (done.stdout.strip().splitlines() or ["nothing said"])[-1], done.returncode
        with open(report, encoding="utf-8") as file:
            rows = json.load(file)["results"]
    return {row["size"]: row["in_place_per_iter"]["p50_us"] for row in rows if row.get("in_place")}, "", 0


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--perf", default="")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--port", type=int)
    parser.add_argument("--sizes", default="")
    parser.add_argument("--iterations", type=int, default=20)
    return parser.parse_args()


def main():
    options = parse()
    if options.rank is not None:
        rank_main(options.rank, options.ranks, options.port, [int(s) for s in options.sizes.split(",")], options.iterations)
        return 0
    try:
        import torch
    except ImportError:
        print("SKIPPED: no PyTorch here, so no NCCL")
        return SKIPPED
    if not torch.cuda.is_available():
        print("SKIPPED: PyTorch sees no GPU here")
        return SKIPPED
    sizes = [1 << power for power in (13, 16, 18, 20, 22, 24, 26, 28)]
    print(f"{NETWORK_ONLY}; NCCL {torch.cuda.nccl.version()}, {torch.cuda.get_device_name(0)}")
    behind, right, compared = [], True, False
    for ranks in (2, 4):
        theirs = nccl(ranks, sizes, options.iterations, 140)
        mine, why, code = ours(options.perf, ranks, sizes, options.iterations, 90)
        for size in sizes:
            a, b = theirs.get(size), (mine or {}).get(size)
            compared = compared or bool(a and b)
            if a and b and b >= a:
                behind.append(f"{ranks} ranks {size} B")
            text = f"{a / b:.2f} times" if a and b else "no ratio"
            print(f"{ranks} ranks {size:>10} B  NCCL {f'{a:.1f} us' if a else 'not in time':>14}  "
                  f"libftar {f'{b:.1f} us' if b else 'not measured':>14}  {text}")
        if mine is None:
            print(f"libftar: {why}")
            right = right and code == USAGE
    if not right:
        return 1
    if not compared:
        print("SKIPPED: one of the two was not measured, so there is nothing to compare")
        return SKIPPED
    print(f"bar ahead of NCCL  {'; '.join(['behind at', *behind]) if behind else 'at every size'}: {'NOT MET' if behind else 'MET'}")
    return NOT_MET if behind else 0


if __name__ == "__main__":
    sys.exit(main())
