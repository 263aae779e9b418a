#!/usr/bin/env python3
"""vector_access.py FOLDER: every kernel loads and stores 16 bytes at a time, by its machine code.

Reads the objects of FOLDER with cuobjdump. Skips (77) where there are no kernels or no cuobjdump.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

LOAD, STORE = re.compile(r"\bLDG\.E[.\w]*\.128\b"), re.compile(r"\bSTG\.E[.\w]*\.128\b")
LOCAL = re.compile(r"\b(LDL|STL)\b")


def functions(sass):
    """{kernel: its code} of what cuobjdump -sass says."""
    found, name = {}, None
    for line in sass.splitlines():
        start = re.search(r"Function : (\S+)", line)
        if start:
            name = start.group(1)
            found[name] = []
        elif name:
            found[name].append(line)
    return {kernel: "\n".join(lines) for kernel, lines in found.items()}


def problems(code):
    for kernel, text in code.items():
        if not LOAD.search(text):
            yield f"{kernel}: no load of 16 bytes"
        if not STORE.search(text):
            yield f"{kernel}: no store of 16 bytes"
        if LOCAL.search(text):
            yield f"{kernel}: local memory"


def main():
    folder = sys.argv[1]
    cuobjdump = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")
    if not folder or not cuobjdump:
        print("SKIPPED: " + ("no cuobjdump on this machine" if folder else "built without nvcc") + ", so no machine code is looked at")
        return 77
    bad, kernels = [], 0
    for path in sorted(glob.glob(os.path.join(folder, "*.cu.o"))):
        done = subprocess.run([cuobjdump, "-sass", path], stdout=subprocess.PIPE, check=True, text=True)
        for part in re.split(r"(?=arch = sm_)", done.stdout):
            code = functions(part)
            kernels += len(code)
            bad += [f"{os.path.basename(path)} {part.split(chr(10))[0]}: {text}" for text in problems(code)]
    for text in bad:
        print(text)
    print(f"vector access: {kernels} kernels, {len(bad)} problems")
    return 1 if bad or kernels == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
