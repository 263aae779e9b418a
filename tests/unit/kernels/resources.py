#!/usr/bin/env python3
"""resources.py [--table] COUNT FOLDER ARCHITECTURE...: the compiler's report of every kernel, as kernels/keep_report left it.

Fails where a kernel spills, has local memory or a stack, or needs more registers than its launch shape has; and where there are
not as many of them for each architecture as the program COUNT says. Skips (77) where FOLDER is empty: built without nvcc. --table
prints docs/gpu.md's table.
"""
import glob
import os
import re
import subprocess
import sys

KERNEL = re.compile(r"(Two|Many|Mixed|Copy)Tile(?:INS0_6Format.*?(Sum|Prod|Min|Max)OpE+)?E?Li(\d+)ELi(\d+)E")


def read(path):
    """[(architecture, kernel's mangled name, registers, stack bytes, spilled bytes)] of one report."""
    found, name, arch, stack, spilled = [], None, None, None, None
    for line in open(path, encoding="utf-8"):
        entry = re.search(r"Compiling entry function '(\S+)' for '(\S+)'", line)
        if entry:
            name, arch = entry.groups()
        memory = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)
        if memory:
            stack, spilled = int(memory.group(1)), int(memory.group(2)) + int(memory.group(3))
        used = re.search(r"Used (\d+) registers", line)
        if used and name:
            local = re.search(r"(\d+) bytes lmem", line)
            found.append((arch, name, int(used.group(1)), stack + (int(local.group(1)) if local else 0), spilled))
            name = None
    return found


def shape(name):
    """(tile, operator, packs at a time, registers that its launch shape has)."""
    if "FtarResidentKernel" in name:
        return "Resident", "", 0, 64
    match = KERNEL.search(name)
    if not match:
        return None
    tile, op, unroll, budget = match.groups()
    if "PlainCodeIfdE" in name:
        tile = "Wide"
    elif tile == "Mixed" and re.search(r"PlainCodeI[ahij][lm]E", name):
        tile = "Average"
    return tile, (op or "").lower(), int(unroll), int(budget)


def problems(rows, kernels, architectures):
    for arch in architectures:
        count = sum(1 for _, row in rows if row[0] == arch)
        if count != kernels:
            yield f"{count} kernels for {arch}, not {kernels}: build ftar_kernels anew"
    for file, (arch, name, registers, stack, spilled) in rows:
        known = shape(name)
        where = f"{file} {arch} {known[0] if known else name} {known[1:3] if known else ''}"
        if known is None:
            yield f"{where}: a kernel that this script cannot name"
        elif registers > known[3]:
            yield f"{where}: {registers} registers, its launch shape has {known[3]}"
        if stack or spilled:
            yield f"{where}: {stack} bytes of stack, {spilled} spilled"


def table(rows, architectures):
    """Most registers of the operators of each type, tile and unrolling."""
    most = {}
    for file, (arch, name, registers, stack, spilled) in rows:
        tile, _, unroll, budget = shape(name)
        row = most.setdefault((file, tile, unroll, budget), {})
        row[arch] = max(row.get(arch, 0), registers)
        row["local"] = row.get("local", 0) + stack + spilled
    print("| type | kernel | unroll | " + " | ".join(architectures) + " | budget | spills and local memory |")
    print("|" + "---|" * (5 + len(architectures)))
    for (file, tile, unroll, budget), row in sorted(most.items()):
        print(f"| {file} | {tile.lower()} | {unroll or 'as launched'} | " + " | ".join(str(row.get(a, "")) for a in architectures)
              + f" | {budget} | {row['local']} |")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--table"]
    count, folder, architectures = arguments[0], arguments[1], ["sm_" + re.match(r"\d+", a).group(0) for a in arguments[2:]]
    if not folder:
        print("SKIPPED: built without nvcc, so no compiler has said what the kernels need")
        return 77
    kernels = int(subprocess.run([count], stdout=subprocess.PIPE, check=True).stdout)
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "*.ptxas"))):
        file = os.path.basename(path).split(".")[0]
        rows += [(file, row) for row in read(path)]
    if "--table" in sys.argv:
        table(rows, architectures)
        return 0
    bad = list(problems(rows, kernels, architectures))
    for text in bad:
        print(text)
    worst = max((row[2] for _, row in rows), default=0)
    print(f"resources: {len(rows)} kernels, most registers {worst}, {len(bad)} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
