#!/usr/bin/env python3
"""pure_symbols.py libftar_core.a: what the pure rooms need from outside must be on this list.

The linker would satisfy clock_gettime or socket from libc without a word, so `nm -u` is compared with an allow-list. C++ names
are allowed by library area; plain C names one by one.
"""
import re
import subprocess
import sys

# Mangled prefixes: our own names, the C++ library's containers, strings, allocation, exceptions' plumbing.
CXX_ALLOWED = re.compile(
    r"^_ZNK?(K?4ftar|K?S[tsab]|10__cxxabi|K?9__gnu_cxx|K?11flatbuffers)|^_ZZ?NK?4ftar|^_Z(nw|na|dl|da)|^_ZT[ISV]|^_ZS|^_ZGV|^_Zeq"
    r"|^_Z[A-Z]*St|^_ZThn|^_ZGTt")
# The parts of the C++ library that are clocks, threads, files or chance, even though they are in std.
CXX_FORBIDDEN = re.compile(
    r"chrono.*(steady|system|high_resolution)_clock|St6thread|this_thread|condition_variable|random_device|basic_[io]?fstream"
    r"|basic_filebuf|filesystem|St13shared_mutex|_ZSt4c(out|err|in)")
C_ALLOWED = set("""
  memcpy memmove memset memcmp memchr strlen strcmp strncmp strchr strerror_r snprintf __snprintf_chk vsnprintf
  __memcpy_chk __memset_chk __memmove_chk __stack_chk_fail __assert_fail
  __cxa_guard_acquire __cxa_guard_release __cxa_guard_abort __cxa_atexit __cxa_pure_virtual __cxa_begin_catch __cxa_end_catch
  __cxa_rethrow __cxa_throw_bad_array_new_length __cxa_allocate_exception __cxa_free_exception __cxa_throw __gxx_personality_v0
  _Unwind_Resume __dso_handle __libc_single_threaded _GLOBAL_OFFSET_TABLE_ __cpu_model __cpu_indicator_init
  log log2 log1p exp exp2 pow sqrt floor ceil fmod ldexp frexp round trunc nearbyint lround lrint fmax fmin
  malloc free strtol strtoll strtoul strtoull strtod
  crc32_iscsi crc32_iscsi_base
""".split())


def forbidden(nm_output):
    bad = set()
    for line in nm_output.split("\n"):
        match = re.match(r"\s+[Uw] (\S+)", line)
        if not match:
            continue
        name = match.group(1).split("@")[0]
        if name.startswith("_Z"):
            if CXX_FORBIDDEN.search(name) or not CXX_ALLOWED.search(name):
                bad.add(name)
        elif name not in C_ALLOWED and not name.startswith(("XXH", "__asan", "__ubsan", "__tsan")):
            bad.add(name)
    return sorted(bad)


def main():
    output = subprocess.run(["nm", "-u", sys.argv[1]], check=True, capture_output=True, text=True).stdout
    bad = forbidden(output)
    for name in bad:
        print(f"{sys.argv[1]} needs {name}, which is not on the allow-list of tests/tidy/pure_symbols.py")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
