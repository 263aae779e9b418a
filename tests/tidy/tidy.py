#!/usr/bin/env python3
"""The style law as a test: python3 tests/tidy/tidy.py [folder]. Prints file:line: problem and fails if there is one.

Lengths, layers, pure rooms, third-party headers, banned words, dead files, dead links, blobs, sanitizer suppressions. The
numbers and tables are in rules.py; tidy_test.py checks the checks.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cxx_scan
import rules

CXX = (".cc", ".h", ".hpp", ".c", ".cu")
TEXT = CXX + (".py", ".sh", ".cmake", ".txt", ".md", ".json", ".fbs", ".in", ".map", "")


def list_files(top):
    """Files of the project: what git would commit, or without git everything outside build folders."""
    try:
        out = subprocess.run(["git", "-C", top, "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                             capture_output=True).stdout.decode()
        files = [name for name in out.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        files = []
        for folder, folders, names in os.walk(top):
            folders[:] = [f for f in folders if f not in (".git", "__pycache__") and not f.startswith("build")]
            files += [os.path.relpath(os.path.join(folder, n), top) for n in names]
    return sorted(f for f in set(files) if os.path.isfile(os.path.join(top, f)))


def is_cxx(path):
    return path.endswith(CXX)


def check_lengths(path, text):
    lines = text.split("\n")
    limit = rules.TEST_FILE_LINES_MAX if path.startswith("tests/") else rules.FILE_LINES_MAX
    if len(lines) - 1 > limit:
        yield 1, f"{len(lines) - 1} lines; a file has at most {limit}"
    for number, line in enumerate(lines, 1):
        if len(line) > rules.COLUMNS_MAX and "http" not in line:
            yield number, f"{len(line)} columns; at most {rules.COLUMNS_MAX}"
        if line != line.rstrip():
            yield number, "blanks at the end of the line"
        if "\t" in line:
            yield number, "a tab"
    for name, first, last in cxx_scan.functions(text):
        if last - first + 1 > rules.FUNCTION_LINES_MAX:
            yield first, f"{name} has {last - first + 1} lines; a function has at most {rules.FUNCTION_LINES_MAX}"


def includes(text):
    for number, line in enumerate(cxx_scan.blank(text, keep_strings=True).split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
        if match:
            yield number, match.group(1), match.group(2)


def room_of(path):
    match = re.match(r"(?:src/)?(\w+)/", path) if path.startswith(("src/", "kernels/")) else None
    return match.group(1) if match else None


def transport_of(name):
    match = re.match(r"(?:src/)?transport/(\w+)/", name)
    return match.group(1) if match and match.group(1) in rules.TRANSPORTS else None


def allowed_rooms(path):
    """The rooms of src/ that a file may include, or None where there is no rule (tests)."""
    room = room_of(path)
    if room is not None:
        return {room, *rules.LAYERS.get(room, "").split()}
    for prefix, rooms in rules.PROGRAM_ROOMS.items():
        if path.startswith(prefix):
            return set(rooms.split())
    return None


def check_layers(path, text):
    room, allowed = room_of(path), allowed_rooms(path)
    if path.startswith("src/") and room not in rules.LAYERS:
        yield 1, f"room '{room}' is not in tests/tidy/rules.py"
    for number, quote, name in includes(text):
        target = name.split("/")[0]
        if quote == '"' and allowed is not None and target in rules.LAYERS and target not in allowed:
            yield number, f"{room or path.split('/')[0]} must not include {target} (\"{name}\")"
        mine, other = transport_of(path), transport_of(name)
        if mine and other and mine != other:
            yield number, f"transport {mine} includes transport {other}"
        if path.startswith("include/") and quote == '"':
            yield number, "a public header includes only <...>: it is installed alone"
        if name.startswith("ftar/") and room not in (None, "api"):
            yield number, "only api/ knows the public headers"
        if path.startswith("tests/") or path.endswith("_test.cc"):
            continue
        for header, places in rules.THIRD_PARTY.items():
            if name.startswith(header) and not path.startswith(places or ("?",)):
                yield number, f"<{name}> does not belong here"


def is_pure(path):
    return room_of(path) in rules.PURE_ROOMS and not any(re.match(p, path) for p in rules.NOT_PURE)


def check_pure(path, text):
    if not is_pure(path):
        return
    for number, _, name in includes(text):
        if name in rules.PURE_INCLUDES_BANNED or name.startswith(rules.PURE_INCLUDE_FOLDERS_BANNED):
            yield number, f"<{name}> in a pure room"
        if re.match(r"\w+/\w+_os\.h$", name):
            yield number, f"a pure room reads the system through {name}"
    yield from search(path, cxx_scan.blank(text), [(p, ".", "a pure room has no such call") for p in rules.PURE_CALLS_BANNED])


def search(path, text, patterns):
    for pattern, where, what in patterns:
        if not re.search(where, path):
            continue
        for match in re.finditer(pattern, text):
            yield text.count("\n", 0, match.start()) + 1, f"'{match.group(0).strip()}': {what}"


def check_words(path, text):
    yield from search(path, text, rules.MARKERS)
    if is_cxx(path):
        yield from search(path, cxx_scan.blank(text), rules.CODE_WORDS)


def check_guard(path, text):
    """Headers open with a comment that says what they are, and guard themselves by path."""
    if not path.startswith(("src/", "include/", "kernels/")) or not path.endswith(".h"):
        return
    if not text.startswith(("//", "/*")):
        yield 1, "a header opens with a paragraph: purpose, thread rule, ownership"
    relative = path if path.startswith("kernels/") else path.split("/", 1)[1]
    guard = re.sub(r"[^A-Z0-9]", "_", (relative if path.startswith("include/") else "ftar/" + relative).upper()) + "_"
    if f"#ifndef {guard}\n" not in text:
        yield 1, f"the include guard must be {guard}"


def check_dead(path, lists):
    """Every compiled file is named in a CMakeLists.txt of its folder or of one above."""
    if not path.endswith((".cc", ".c", ".cu")):
        return
    folder = os.path.dirname(path)
    while True:
        wanted = re.escape(os.path.relpath(path, folder or "."))
        if re.search(rf"(?<![\w/.-]){wanted}(?![\w.-])", lists.get(os.path.join(folder, "CMakeLists.txt"), "")):
            return
        if not folder:
            break
        folder = os.path.dirname(folder)
    yield 1, "no CMakeLists.txt names this file, so nobody builds it"


def check_blob(path, data):
    if len(data) > rules.BLOB_BYTES_MAX:
        yield 1, f"{len(data)} bytes; at most {rules.BLOB_BYTES_MAX}"
    if b"\0" in data and not path.startswith("tests/fuzz/corpus/"):
        yield 1, "a binary file"
    if re.search(r"(supp|suppressions)(\.txt)?$", path) and data.strip():
        yield 1, "sanitizer suppressions must be empty"


def anchors(text):
    """What a link into a page may name, as GitHub makes it of the headings."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", head.strip().lower()).replace(" ", "-") for head in heads}


def check_links(path, contents):
    """Links of a page to files of the project, and to headings in them."""
    if not path.endswith(".md"):
        return
    for number, line in enumerate(contents[path].decode("utf-8", "replace").split("\n"), 1):
        for link in re.findall(r"\]\(([^)\s:]+)\)", line):
            name, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if target not in contents and not any(other.startswith(target + "/") for other in contents):
                yield number, f"a link to {link}, where nothing is"
            elif anchor and anchor not in anchors(contents.get(target, b"").decode("utf-8", "replace")):
                yield number, f"a link to {link}, and there is no such heading"


def check_file(path, data, lists):
    yield from check_blob(path, data)
    if b"\0" in data or not path.endswith(TEXT) or path == "LICENSE":
        return
    text = data.decode("utf-8", "replace")
    if text and not text.endswith("\n"):
        yield text.count("\n") + 1, "no newline at the end"
    yield from check_words(path, text)
    if not is_cxx(path):
        return
    for check in (check_lengths, check_layers, check_pure, check_guard):
        yield from check(path, text)
    yield from check_dead(path, lists)


def main():
    top = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.getcwd()
    contents = {}
    for path in list_files(top):
        with open(os.path.join(top, path), "rb") as file:
            contents[path] = file.read()
    lists = {path: re.sub(r"#[^\n]*", "", data.decode()) for path, data in contents.items()
             if os.path.basename(path) == "CMakeLists.txt"}
    problems = [(path, *found) for path, data in contents.items()
                for found in (*check_file(path, data, lists), *check_links(path, contents))]
    for path, line, text in problems:
        print(f"{path}:{line}: {text}")
    print(f"tidy: {len(contents)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
