#!/usr/bin/env python3
"""collectives_test.py FTAR-PERF FAKE-GPU: collectives.py over a GPU that is none."""
import os
import pathlib
import subprocess
import sys
import tempfile

import collectives

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collectives.py")


def run(arguments, environment=None):
    command = [sys.executable, "-B", SCRIPT, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=150, check=False, env=environment)
    print(done.stdout, flush=True)
    return done.returncode, done.stdout


def test_reports():
    place = {"nwrong": 0}
    good = {"results": [{"out_of_place": place, "in_place": place}], "out_of_bounds": {"count": 0},
            "config": {"devices": [{"device_info": "GPU memory"}]}, "fault": {"participants_after": 2}, "agreed": True}
    assert collectives.problem(good, 2) == ""
    wrong = [{"results": [{"in_place": {"nwrong": 1}}]}, {"results": []}, {"out_of_bounds": {"count": 1}}, {"agreed": False},
             {"config": {"devices": [{"device_info": "memory of the library"}]}}, {"fault": {"participants_after": 3}}]
    for part in wrong:
        assert collectives.problem({**good, **part}, 2), part


def test_what_is_missing():
    assert collectives.missing(60, "") == ""
    assert "within 1 s" in collectives.missing(1, "import time; time.sleep(30)")
    assert "no PyTorch" in collectives.missing(60, "raise ImportError")


def test_pytorchs_own_libraries():
    with tempfile.TemporaryDirectory() as folder:
        site, perf, said = pathlib.Path(folder).resolve(), pathlib.Path(folder, "ftar-perf"), pathlib.Path(folder, "said")
        for name in ("torch/__init__.py", "nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib/libcublas.so.13", "nvidia/cu13/lib/libcublasLt.so.13"):
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_text("", encoding="utf-8")
        perf.write_text(f"#!/bin/sh\necho run \"$@\" >>{said}\ncase \"$*\" in *--matmul*) exit 2;; *'-T 110'*) exit 0;; esac\nexit 1\n", encoding="utf-8")
        perf.chmod(0o755)
        code, text = run(["--perf", str(perf)], {**os.environ, "PYTHONPATH": str(site)})
        lines = said.read_text(encoding="utf-8").splitlines()
        assert code == 1 and len(lines) == 13 and all(f"--cuda-runtime {site}/nvidia/cu13/lib/libcudart.so.13" in line for line in lines)
        assert sum(f"--cublas {site}/nvidia/cu13/lib/libcublas.so.13" in line for line in lines) == 2
        assert text.count("beside a product     not shown") == 2 and text.count("WRONG") == 10, "without cuBLAS nothing is wrong"
        said.unlink()
        run(["--perf", str(perf), "--", "--cuda-runtime", "/mine.so"], {**os.environ, "PYTHONPATH": str(site)})
        assert all(line.count("--cuda-runtime") == 1 for line in said.read_text(encoding="utf-8").splitlines()), "who names one has that one"


def test_the_first_run_has_time():
    with tempfile.TemporaryDirectory() as folder:
        perf, said = pathlib.Path(folder, "ftar-perf"), pathlib.Path(folder, "said")
        perf.write_text(f"#!/bin/sh\necho \"$@\" >>{said}\necho no GPU\nexit 2\n", encoding="utf-8")
        perf.chmod(0o755)
        code, text = run(["--perf", str(perf)])
        assert code == 77 and "SKIPPED: no GPU" in text
        lines = said.read_text(encoding="utf-8").splitlines()
        assert len(lines) == 1 and "-T 110" in lines[0], "as much as PyTorch has for its first look"


def main():
    perf, fake = sys.argv[1:]
    over_fake = ["--cuda-runtime", fake, "--set", f"gpu={fake}"]
    test_reports()
    test_what_is_missing()
    test_pytorchs_own_libraries()
    test_the_first_run_has_time()
    code, text = run(["--quick", "--perf", perf, "--", *over_fake])
    assert code == 0 and text.count(" ok") == 6, "all right by both executors"
    code, text = run(["--quick", "--perf", perf, "--", *over_fake, "--min-bw", "1e9"])
    assert code == 1 and text.count("WRONG") == 6, "a run that fails is seen"
    code, text = run(["--train", "--perf", perf, "--", "--model", "plain", *over_fake])
    assert code == 0 and "the same parameters" in text, "one of the replicas comes back"
    code, text = run(["--perf", perf, "--", "--cuda-runtime", "/no/such/library"])
    assert code == 77 and "SKIPPED" in text, "where there is no GPU, nothing is shown"


main()
