#!/usr/bin/env python3
"""Tests the tests: what resources.py and vector_access.py must find, they find."""
import os
import tempfile
import unittest

import resources
import vector_access

NAME = ("_ZN4ftar7kernels10FtarKernelINS0_4WorkINS0_7TwoTileINS0_6FormatINS0_9PlainCodeIffEES6_LNS_6reduce5DtypeE0ELb1EEENS0_5SumOpEEE"
        "Li4ELi64EEEEEvNS0_3JobE")


def report(registers=60, stack=0, stores=0, loads=0):
    return (f"ptxas info    : Compiling entry function '{NAME}' for 'sm_90'\n"
            f"    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
            f"ptxas info    : Used {registers} registers, used 1 barriers\n")


def found(text, kernels=1):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "f32.cu.o.ptxas")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return list(resources.problems([("f32", row) for row in resources.read(path)], kernels, ["sm_90"]))


class Resources(unittest.TestCase):
    def test_good(self):
        self.assertEqual(found(report()), [])
        self.assertEqual(resources.shape(NAME), ("Two", "sum", 4, 64))
        self.assertEqual(resources.shape("_ZN4ftar7kernels18FtarResidentKernelE"), ("Resident", "", 0, 64))

    def test_bad(self):
        self.assertIn("65 registers", found(report(registers=65))[0])
        self.assertIn("8 bytes of stack", found(report(stack=8))[0])
        self.assertIn("12 spilled", found(report(stores=4, loads=8))[0])
        self.assertIn("1 kernels for sm_90, not 2", found(report(), kernels=2)[0])


class VectorAccess(unittest.TestCase):
    def test_code(self):
        good = "Function : k\n LDG.E.EF.128 R4, desc[UR4][R2.64] ;\n STG.E.EF.128 desc[UR4][R2.64], R4 ;\n"
        self.assertEqual(list(vector_access.problems(vector_access.functions(good))), [])
        self.assertIn("no load", next(vector_access.problems(vector_access.functions(good.replace("LDG.E.EF.128", "LDG.E.64")))))
        self.assertIn("no store", next(vector_access.problems(vector_access.functions(good.replace("STG.E.EF.128", "STG.E")))))
        self.assertIn("local", next(vector_access.problems(vector_access.functions(good + " STL [R1], R2 ;\n"))))


if __name__ == "__main__":
    unittest.main()
