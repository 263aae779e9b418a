#!/usr/bin/env python3
"""check_test.py: what scripts/gpu-check makes of what it starts, in a scratch tree whose programs are made up and whose times are short."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
BAR = "print('bar some rate  5 us (goal 4): NOT MET')\n"


class Tree:
    def __init__(self, folder):
        self.top = pathlib.Path(folder).resolve()
        for name in ("scripts", "tests/gpu", "build/gpu/bin", "tools"):
            (self.top / name).mkdir(parents=True)
        shutil.copy(TOP / "scripts/lib.sh", self.top / "scripts")
        self.program("tools/cmake", "import sys; print(sys.argv)")

    def program(self, name, text):
        path = self.top / name
        path.write_text("#!/usr/bin/env python3\n" + text, encoding="utf-8")
        path.chmod(0o755)

    def check(self, mode, *replacements):
        """Exit code and text, with parts of the script replaced."""
        text = (TOP / "scripts/gpu-check").read_text(encoding="utf-8")
        for before, after in replacements:
            assert before in text, before
            text = text.replace(before, after)
        script = self.top / "scripts/gpu-check"
        script.write_text(text, encoding="utf-8")
        script.chmod(0o755)
        done = subprocess.run([script, mode], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
                              env={**os.environ, "PATH": f"{self.top}/tools:{os.environ['PATH']}"})
        print(done.stdout, flush=True)
        return done.returncode, done.stdout


def test_exit_codes(tree):
    for train, others, code in (("", "", 0), (BAR + "raise SystemExit(4)", "", 4), (BAR, "raise SystemExit(1)", 1), ("", "raise SystemExit(4)", 1),
                                ("print('SKIPPED: none'); raise SystemExit(77)", "", 3), ("raise SystemExit(77)", BAR, 4)):
        tree.program("tests/gpu/collectives.py", f"import sys\nif '--train' in sys.argv:\n  exec({train!r})\nelse:\n  exec({others!r})")
        found, text = tree.check("collectives")
        assert found == code, (train, others)
        if code == 4:
            assert text.strip().endswith("nothing is wrong; bars not met: 1")


def test_hangs(tree):
    tree.program("tests/gpu/collectives.py", "import os, signal, subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                 f"child = subprocess.Popen(['sleep', '600'])\nopen('{tree.top}/pid', 'w').write(str(child.pid))\nchild.wait()")
    quick = [("timeout -k 5", "timeout -k 1"), ('"$seconds" -lt 5', '"$seconds" -lt 1')]
    code, text = tree.check("collectives", ("collectives 350", "collectives 1"), ('"gpu: pytorch" 375', '"gpu: pytorch" 1'), *quick)
    assert code == 1 and text.count("still running after 1 s") == 2, "a hang is a failure"
    code, text = tree.check("collectives", ("limit=510", "limit=2"), *quick)
    assert code == 3 and "cut off after 2 s" in text and "not run: out of time" in text, "the end of the time is none"
    code, text = tree.check("collectives", ("-k 5 530", "-k 5 3"))
    assert code == 1 and "gpu: collectives                   FAILED: ended by the watchdog" in text
    left = f"/proc/{(tree.top / 'pid').read_text(encoding='utf-8')}"
    deadline = time.monotonic() + 10
    while os.path.exists(left) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(left), "what was running is ended, too"


def test_sanitizers(tree):
    for name in ("ftar-gpu-test", "ftar-gpu-fault", "ftar-kernels"):
        tree.program(f"build/gpu/bin/{name}", "")
    refuses = ("for tool in \"$@\"; do", "for tool in memcheck; do")
    for text, code, said in (("", 0, "all good"), ("raise SystemExit(9)", 1, "FAILED (9)"),
                             ("print('========= Error: Device not supported.'); raise SystemExit(9)", 3, "UNPROVEN: Device not supported"),
                             ("import time; time.sleep(30)", 3, "cut off after 2 s")):
        tree.program("tools/compute-sanitizer", text)
        found, said_all = tree.check("correct", refuses, ('"gpu: $tool" 70', '"gpu: $tool" 2'), ("-lt 5 ]", "-lt 1 ]"))
        assert found == code and said in said_all, text


def test_another_runs_logs(tree):
    log = tree.top / "build/gpu/check"
    log.mkdir(exist_ok=True)
    (log / "gpu--threads.txt").write_text("bar stale  1 %: NOT MET\n", encoding="utf-8")
    code, text = tree.check("threads", ("limit=510", "limit=0"))
    assert code == 3 and "stale" not in text and "NO GPU HERE" not in text


def test_a_build_that_was_moved(tree):
    cache, rest = tree.top / "build/gpu/CMakeCache.txt", tree.top / "build/gpu/CMakeFiles"
    tree.program("build/gpu/bin/ftar-gpu-fault", "")
    own = f"CMAKE_HOME_DIRECTORY:INTERNAL={tree.top}\nCMAKE_CACHEFILE_DIR:INTERNAL={tree.top}/build/gpu\n"
    for text, kept in ((own, True), (own.replace("/build/gpu", "/build/other"), False), (own.replace(f"{tree.top}\n", "/elsewhere\n"), False)):
        cache.write_text(text, encoding="utf-8")
        rest.mkdir(exist_ok=True)
        code, _ = tree.check("fault")
        assert code == 0 and cache.exists() == kept and rest.exists() == kept, text


def main():
    for test in (test_exit_codes, test_hangs, test_sanitizers, test_another_runs_logs, test_a_build_that_was_moved):
        with tempfile.TemporaryDirectory() as folder:
            test(Tree(folder))


main()
