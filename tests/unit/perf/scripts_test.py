#!/usr/bin/env python3
"""perf/compare, the bars' shared functions and the bucket lists: what they make of given figures."""
import importlib.machinery
import importlib.util
import io
import json
import math
import os
import random
import sys
import unittest
from unittest import mock

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "scripts", "show.d"))
import bars  # pylint: disable=wrong-import-position


def load(name, *path):
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(TOP, *path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


compare = load("compare", "perf", "compare")
make_buckets = load("make_buckets", "perf", "buckets", "make_buckets.py")


class Bars(unittest.TestCase):
    def test_the_interval_is_that_of_ftar_perf(self):
        sample = list(range(1, 22))
        random.Random(1).shuffle(sample)
        self.assertEqual(bars.median_interval(sample), (6, 16))
        self.assertEqual(bars.median_interval(list(range(13, 22))), (14, 20))
        self.assertEqual(bars.median_interval([3, 1, 2]), (1, 3))
        self.assertTrue(all(map(math.isnan, bars.median_interval([]))))
        low, high = bars.median_interval(list(range(10_000)))
        self.assertTrue(abs(low - 4902) <= 2 and abs(high - 5098) <= 2, (low, high))

    def test_pairs_alternate_and_count_failures(self):
        called = []

        def first():
            called.append("first")
            return None if len(called) == 1 else 3

        def second():
            called.append("second")
            return 2

        ratios, failed = bars.pairs(3, first, second)
        self.assertEqual((ratios, failed), ([1.5, 1.5], 1))
        self.assertEqual(called, ["first", "second", "second", "first", "first", "second"])

    def test_ahead_finds_the_row_that_is_furthest_from_its_goal(self):
        rows = [{"size": 8, "times_as_fast": {"bbr": [1.1], "cubic": [0.9]}}, {"size": 1 << 20, "times_as_fast": {"": [1.2]}}]
        self.assertEqual(bars.ahead(rows, lambda size: 1.3 if size > 8 else 0.8), ("1.200 at 1048576 B", False))
        self.assertEqual(bars.ahead(rows, lambda size: 0.9), ("0.900 at 8 B cubic", True))
        self.assertFalse(bars.ahead([], lambda size: 1)[1])
        self.assertFalse(bars.ahead([{"size": 8, "times_as_fast": {"": []}}], lambda size: 1)[1])  # nothing was measured


class Compare(unittest.TestCase):
    ROUNDS = [{"libftar": {8: 2.0}, "a/bbr": {8: 4.0}, "b/cubic": {8: 1.0}},
              {"libftar": {8: 1.0}, "a/bbr": {8: 3.0}, "b/cubic": {}},
              {"libftar": {}, "a/bbr": {8: 1.0}}]

    def test_a_ratio_takes_both_times_from_one_round(self):
        row = compare.Row(8, self.ROUNDS, ["a/bbr", "b/cubic"])
        self.assertEqual(row.ahead, {"bbr": [2.0, 3.0], "cubic": [0.5]})
        self.assertEqual(row.against["a/bbr"], [2.0, 3.0])
        self.assertEqual(row.times, {"libftar": 1.5, "a/bbr": 3.0, "b/cubic": 1.0})
        self.assertEqual(row.best, "b/cubic")

    def test_a_round_in_which_libftar_fails_is_a_failure(self):
        self.assertEqual(compare.failures(self.ROUNDS), 1)
        for rounds, code in ((self.ROUNDS, 1), (self.ROUNDS[:2], 0)):
            with mock.patch.object(compare, "compare", return_value=(rounds, ["a/bbr"])), \
                    mock.patch.object(sys, "argv", ["compare", "bin"]), mock.patch("sys.stdout", new=io.StringIO()), \
                    self.assertRaises(SystemExit) as end:
                compare.main()
            self.assertEqual(end.exception.code, code)

    def test_torn_and_wrong_rows_of_a_rival_do_not_count(self):
        text = ('noise\n{"size": 8, "nwrong": 0, "times_us": [3, 1, 2]}\n{"size": 16, "nwrong": 1, "times_us": [1]}\n'
                '{"size": 32, "nwrong": 0, "times_us": []}\n{"size": 64, "nwr')
        with mock.patch("sys.stdout", new=io.StringIO()) as out:
            self.assertEqual(compare.read_rival("a", text), {8: 2})
        self.assertIn("1 wrong elements at 16 bytes", out.getvalue())

    def test_the_page_has_the_results_and_nothing_breaks_out_of_them(self):
        options = compare.parse(["bin", "--ranks", "3"])
        results = compare.document(options, [compare.Row(8, self.ROUNDS, ["a/bbr"])], ["a/bbr", "</script>"])
        page = compare.page(results)
        begin = page.index('id="data">') + len('id="data">')
        self.assertEqual(json.loads(page[begin:page.index("</script>", begin)]), json.loads(json.dumps(results)))

    def test_every_rival_keeps_to_the_transport(self):
        for rival in compare.rivals_of("shm", 2, ""):
            self.assertNotIn("tcp,self", " ".join(rival.command))
        with mock.patch.object(compare, "may_switch", return_value=False):
            for rival in compare.rivals_of("tcp", 2, ""):
                said = " ".join(rival.command) + str(rival.environment)
                self.assertIn("tcp,self", said)
                self.assertNotIn("vader", said)
                self.assertNotIn("posix", said)

    def test_rivals_are_bound_where_each_rank_has_a_core(self):
        with mock.patch.object(os, "sched_getaffinity", return_value={0, 1}):
            self.assertIn("-bind-to", compare.mpich(2, {}).command)
            self.assertNotIn("-bind-to", compare.mpich(3, {}).command)


class Buckets(unittest.TestCase):
    def test_the_lists_are_what_the_shapes_give(self):
        for name, (title, parameters) in make_buckets.MODELS.items():
            with open(os.path.join(TOP, "perf", "buckets", name), encoding="utf-8") as file:
                self.assertEqual(file.read(), make_buckets.text_of(title, parameters), name)


if __name__ == "__main__":
    unittest.main()
