#!/usr/bin/env python3
"""symbols.py LIBRARY HEADER: what the library exports is exactly what the header declares, all in symbol version FTAR_1.0.

Also checks the SONAME, that nothing but libc, the C++ runtime and libcrypto (and the optional libraries) is needed to load it, and
that no variable of a thread has a destructor: its first use asks for memory, and the C library ends the process where there is none;
and that none lies in the static block of all libraries, which is small: whoever loads this one and then another that needs it would fail.
"""
import re
import subprocess
import sys

NEEDED = re.compile(r"^(libc|libm|libstdc\+\+|libgcc_s|libcrypto|libhwloc|libisal|ld-linux-[\w-]+|libpthread)\.so")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(library):
    rows = (line.split() for line in run("nm", "-D", "--defined-only", library).splitlines())
    return {row[-1] for row in rows if row[-2] != "A"}


def declared(header):
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
    return set(re.findall(r"FTAR_API\b[^;]*?\b(ftar\w+)\s*\(", text))


def main():
    library, header = sys.argv[1:3]
    wanted = {name + "@@FTAR_1.0" for name in declared(header)}
    have = exported(library)
    problems = [f"declared, not exported: {name}" for name in sorted(wanted - have)]
    problems += [f"exported, not declared: {name}" for name in sorted(have - wanted)]
    if "__cxa_thread_atexit" in run("nm", "-D", "--undefined-only", library):
        problems.append("a thread_local variable has a destructor")
    dynamic = run("readelf", "-d", library)
    if "STATIC_TLS" in dynamic:
        problems.append("a thread_local variable is in the static block")
    if "[libftar.so.1]" not in dynamic:
        problems.append("the SONAME is not libftar.so.1")
    problems += [f"needs {name}" for name in re.findall(r"NEEDED.*\[(.*)\]", dynamic) if not NEEDED.match(name)]
    print("\n".join(problems) or f"{len(have)} symbols, as declared")
    return 1 if problems or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
