"""Holds the example to its promise: a real trainer in under 400 lines, of which libftar takes under 30.

A line of libftar's ends in the comment "ftar". A line of code that names the library without that mark is an error.
"""

import pathlib
import re
import sys

MOST_LINES, MOST_FTAR = 400, 30

folder = pathlib.Path(__file__).parent
total, marked, wrong = 0, 0, []
for path in [folder / name for name in ("trainer.cc", "model.h", "text.h")]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        total += 1
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line).split("//")[0]
        uses = re.search(r"\bftar(::|/|[A-Z])|\bFTAR_[A-Z]+|\b(job|group|view)\.[A-Z]", code)
        if line.endswith("// ftar"):
            marked += 1
        elif uses and not path.name.endswith(".h"):
            wrong.append(f"{path.name}:{number}: uses libftar without the mark: {line.strip()}")
print(f"trainer: {total} lines (under {MOST_LINES}), of which libftar takes {marked} (under {MOST_FTAR})")
print(*wrong, sep="\n")
sys.exit(0 if total < MOST_LINES and 0 < marked < MOST_FTAR and not wrong else 1)
