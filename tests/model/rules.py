#!/usr/bin/env python3
"""rules.py: the table of docs/protocol.md against the cases and the sources.

Each rule has a row and no cell is empty; every case of the table `cases` is named by some rule, and everything named is there.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
RULES = [f"{letter}{number}" for letter, last in (("V", 10), ("Q", 8), ("J", 6), ("F", 8)) for number in range(1, last + 1)]


def rows(text):
    """{rule: cells} of the lines `| V1 ... | ... |`."""
    found = {}
    for line in text.splitlines():
        if re.match(r"\| [VQJF]\d", line):
            cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
            found[cells[0].split()[0]] = cells
    return found


def problems(table, cases, exists):
    for rule in RULES:
        if rule not in table:
            yield f"{rule} has no row"
        elif len(table[rule]) != 5 or not all(table[rule]):
            yield f"{rule}: a row has five cells, none of them empty"
    words = {word for cells in table.values() for cell in cells[1:3] for word in re.findall(r"[a-z0-9-]+", re.sub(r"`.*?`", "", cell))}
    for case in sorted(cases - words):
        yield f"no rule names the case {case}"
    for word in sorted(word for word in words - cases if "-" in word.strip("-")):
        yield f"there is no case {word}"
    for rule, cells in table.items():
        for path in re.findall(r"`([\w/.]+)`", cells[3]) if len(cells) > 3 else []:
            if not exists(path):
                yield f"{rule}: there is no src/{path}"


def main():
    with open(os.path.join(HERE, "cases"), encoding="utf-8") as file:
        cases = {line.split()[0] for line in file if line.split("#")[0].strip()}
    with open(os.path.join(TOP, "docs", "protocol.md"), encoding="utf-8") as file:
        table = rows(file.read())
    found = list(problems(table, cases, lambda path: os.path.exists(os.path.join(TOP, "src", path))))
    for problem in found:
        print("docs/protocol.md:", problem)
    print(f"rules: {len(table)} rules, {len(cases)} cases, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
