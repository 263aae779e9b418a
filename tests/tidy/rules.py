"""The project's rules as data: which room may include what, and which words may stand where."""

# Room -> rooms below it that it may include (src/README.md draws this). A room may always include itself.
LAYERS = {
    "base": "",
    "topology": "base",
    "wire": "base topology",
    "plan": "base topology wire",
    "membership": "base wire",
    "collective": "base topology wire plan membership",
    "engine": "base topology wire plan membership collective",
    "reduce": "base",
    "kernels": "base reduce",
    "device": "base reduce kernels",
    "transport": "base wire",
    "coordinator": "base topology wire plan membership collective engine transport reduce",
    "runtime": "base topology wire plan membership collective engine transport reduce coordinator device kernels",
    "api": "base topology wire plan membership collective engine transport reduce coordinator runtime device kernels",
}
TRANSPORTS = ("shm", "tcp", "faulty", "verbs", "ucx", "cuda_ipc")

# Files of the pure rooms: linked into ftar_core, no clock, socket, file, environment, thread or randomness of their own.
PURE_ROOMS = ("base", "wire", "membership", "topology", "plan", "collective", "engine")
NOT_PURE = (r"src/base/\w+_os\.(cc|h)$", r"src/topology/hwloc_source\.(cc|h)$")

# <chrono> is the calendar for log lines; its clocks are banned by name below.
PURE_INCLUDES_BANNED = {
    "thread", "mutex", "shared_mutex", "condition_variable", "future", "atomic", "random", "fstream", "iostream",
    "filesystem", "ctime", "time.h", "unistd.h", "fcntl.h", "pthread.h", "signal.h", "csignal", "semaphore", "latch",
    "barrier", "stop_token", "netdb.h", "poll.h", "dirent.h",
}
PURE_INCLUDE_FOLDERS_BANNED = ("sys/", "netinet/", "arpa/", "linux/")
PURE_CALLS_BANNED = (
    r"\b(steady_clock|system_clock|high_resolution_clock)\b", r"\b(getenv|setenv|secure_getenv)\s*\(",
    r"\b(fopen|open|socket|clock_gettime|gettimeofday)\s*\(", r"\b(rand|srand|random_device)\b",
    r"\b(printf|puts|fprintf)\s*\(",
)

# Header (or folder) -> where it may be included. Tests may include anything.
THIRD_PARTY = {
    "cuda": ("cuda/", "kernels/arith.h", "kernels/device.cc", "kernels/launch.cc"),
    "hwloc.h": ("src/topology/hwloc_source",),
    "openssl/": ("src/transport/", "src/coordinator/", "src/runtime/"),
    "flatbuffers/": ("src/wire/",),
    "xxhash.h": ("src/wire/", "src/base/", "src/collective/", "src/runtime/", "perf/", "examples/"),
    "isa-l": ("src/base/crc32c",),
    "fmt/": ("perf/", "tools/", "examples/"),
    "CLI/": ("perf/", "tools/", "examples/"),
    "nlohmann/": ("src/runtime/", "perf/", "tools/", "examples/"),
    "benchmark/": ("perf/",),
    "gtest/": (), "gmock/": (),
}

# What programs may include of ours beside include/ftar and their own folder: the rooms that they run.
PROGRAM_ROOMS = {
    "cuda/": "base reduce kernels device",
    "perf/kernel_bench/": "kernels reduce base",
    "perf/bench_": "reduce engine collective plan wire base",
    "perf/": "",
    "tools/": "base wire topology plan membership collective engine transport reduce coordinator runtime",
    "examples/": "",
    "docs/": "base",
}

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 800
TEST_FILE_LINES_MAX = 1200
COLUMNS_MAX = 100
BLOB_BYTES_MAX = 512 * 1024

# (pattern, where it counts, what to say). Split so that this file does not accuse itself.
MARKERS = [
    (r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b", r".", "left-over marker"),
    (r"/(wo" r"rk|ro" r"ot)/", r".", "a path of somebody's machine"),
]
CODE_WORDS = [
    (r"(?<![\w.>])(?:std::)?(abort|exit|quick_exit|terminate)\s*\(", r"^src/", "the library never ends the process"),
    # The two exceptions: a forked child that has not become another program, and the test hook that plays a crash.
    (r"\b_exit\s*\(", r"^src/(?!runtime/(test_hook|coordinator_process)\.cc$)", "the library never ends the process"),
    (r"\bthrow\b", r"^src/", "the library does not throw"),
    (r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(", r"^(src|tests/(?!process/|conform/|chaos/|gpu/|fakegpu/))",
     "sleeps only in tests/process, tests/conform, tests/chaos, tests/gpu and tests/fakegpu"),
    (r"\bDISABLED_", r"^tests/", "a test that is switched off"),
    (r"\batomic_thread_fence\b", r"^(src|tests)/", "ThreadSanitizer does not see fences; order the atomics themselves"),
]
