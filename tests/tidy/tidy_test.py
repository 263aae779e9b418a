#!/usr/bin/env python3
"""Small cases for each check of tidy.py: one that must pass, one that must not."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cxx_scan
import pure_symbols
import tidy


def problems(path, text, lists=None):
    return [text for _, text in tidy.check_file(path, text.encode(), lists or {"CMakeLists.txt": path})]


def body(lines):
    return "  Work();\n" * lines


class Functions(unittest.TestCase):
    def lengths(self, text):
        return {name: last - first + 1 for name, first, last in cxx_scan.functions(text)}

    def test_counts_from_the_signature_to_the_brace(self):
        self.assertEqual(self.lengths("int F(int a,\n      int b) {\n  if (a) {\n    G();\n  }\n}\n"), {"F": 6})

    def test_sees_methods_but_not_classes_or_data(self):
        text = ("namespace a {\nclass B {\n public:\n  int M() const { return 1; }\n};\n"
                "constexpr T kTable[] = {\n  {1, 2},\n};\nenum class E { kA };\n}  // namespace a\n")
        self.assertEqual(self.lengths(text), {"M": 1})

    def test_follows_brace_initialisers_of_members_to_the_body(self):
        text = "A::A(int x)\n    : a_{x}, b_{1},\n      c_(2) {\n  Go();\n}\nint B() {\n}\n"
        self.assertEqual(self.lengths(text), {"A::A": 5, "B": 2})

    def test_lambdas_belong_to_the_function_around_them(self):
        self.assertEqual(self.lengths("void F() {\n  auto f = [](int x) {\n    return x;\n  };\n}\n"), {"F": 5})

    def test_is_not_fooled_by_text(self):
        text = 'void F() {\n  // }\n  G("{");\n  char c = \'{\';\n  /* } */\n}\n#define M(x) if (x) {\nvoid H() {\n}\n'
        self.assertEqual(self.lengths(text), {"F": 6, "H": 2})

    def test_test_macros_are_functions(self):
        self.assertEqual(self.lengths("TEST(A, B) {\n  C();\n}\n"), {"TEST": 3})


class Lengths(unittest.TestCase):
    def test_function(self):
        self.assertEqual(problems("src/base/a.cc", f"void F() {{\n{body(68)}}}\n"), [])
        self.assertIn("F has 71 lines", problems("src/base/a.cc", f"void F() {{\n{body(69)}}}\n")[0])

    def test_file(self):
        self.assertIn("801 lines", problems("src/base/a.cc", "int x;\n" * 801)[0])
        self.assertEqual(problems("tests/unit/a.cc", "int x;\n" * 801), [])

    def test_columns(self):
        self.assertIn("101 columns", problems("src/base/a.cc", "x" * 101 + "\n")[0])
        self.assertIn("101 columns", problems("src/base/a.cc", "// " + "x" * 98 + "\n")[0])
        self.assertIn("blanks", problems("src/base/a.cc", "int x; \n")[0])


class Layers(unittest.TestCase):
    def test_arrows_point_down(self):
        self.assertEqual(problems("src/engine/a.cc", '#include "collective/b.h"\n'), [])
        self.assertIn("must not include runtime", problems("src/engine/a.cc", '#include "runtime/b.h"\n')[0])
        self.assertIn("must not include topology", problems("src/membership/a.cc", '#include "topology/b.h"\n')[0])
        self.assertIn("not in tests/tidy/rules.py", problems("src/new/a.cc", "int x;\n")[0])

    def test_kernels_are_a_room_beside_src(self):
        lists = {"kernels/CMakeLists.txt": "add(a.cu)"}
        self.assertEqual(problems("kernels/a.cu", '#include "reduce/b.h"\n', lists), [])
        self.assertIn("kernels must not include runtime", problems("kernels/a.cu", '#include "runtime/b.h"\n', lists)[0])
        self.assertIn("nobody builds it", problems("kernels/b.cu", "int x;\n", lists)[0])
        self.assertIn("FTAR_KERNELS_A_H_", problems("kernels/a.h", "// What.\nint x;\n")[0])
        self.assertIn("must not include kernels", problems("src/reduce/a.cc", '#include "kernels/b.h"\n')[0])

    def test_commented_includes_do_not_count(self):
        self.assertEqual(problems("src/base/a.cc", '// #include "runtime/b.h"\n'), [])

    def test_transports_are_strangers(self):
        self.assertIn("transport tcp includes transport shm",
                      problems("src/transport/tcp/a.cc", '#include "transport/shm/b.h"\n')[0])
        self.assertEqual(problems("src/transport/tcp/a.cc", '#include "transport/transport.h"\n'), [])

    def test_programs_see_the_public_headers_only(self):
        self.assertIn("perf must not include engine", problems("perf/a.cc", '#include "engine/b.h"\n')[0])
        self.assertEqual(problems("perf/a.cc", "#include <ftar/ftar.h>\n"), [])
        self.assertIn("only api/", problems("src/runtime/a.cc", "#include <ftar/ftar.h>\n")[0])

    def test_third_party_headers_have_their_places(self):
        self.assertEqual(problems("src/topology/hwloc_source.cc", "#include <hwloc.h>\n"), [])
        self.assertIn("<hwloc.h> does not belong", problems("src/runtime/a.cc", "#include <hwloc.h>\n")[0])
        self.assertIn("does not belong", problems("src/engine/a.cc", "#include <fmt/format.h>\n")[0])


class Pure(unittest.TestCase):
    def test_includes_and_calls(self):
        self.assertIn("<thread> in a pure room", problems("src/engine/a.cc", "#include <thread>\n")[0])
        self.assertIn("<sys/socket.h> in a pure room", problems("src/wire/a.cc", "#include <sys/socket.h>\n")[0])
        self.assertIn("no such call", problems("src/plan/a.cc", "auto t = steady_clock::now();\n")[0])
        self.assertIn("no such call", problems("src/plan/a.cc", 'auto t = getenv("A");\n')[0])
        self.assertEqual(problems("src/plan/a.cc", '// getenv("A")\nReopen(3);\n'), [])

    def test_the_named_exceptions(self):
        self.assertEqual(problems("src/base/config_os.cc", '#include <thread>\nauto x = getenv("A");\n'), [])
        self.assertIn("through base/config_os.h", problems("src/base/a.cc", '#include "base/config_os.h"\n')[0])

    def test_symbols(self):
        nm = "a.o:\n                 U memcpy\n                 U clock_gettime@GLIBC_2.17\n                 U _ZN4ftar1FEv\n"
        self.assertEqual(pure_symbols.forbidden(nm), ["clock_gettime"])


class Words(unittest.TestCase):
    def test_markers(self):
        self.assertIn("left-over marker", problems("src/base/a.cc", "// TO" "DO: later\n")[0])
        self.assertIn("somebody's machine", problems("docs/a.md", "see /wo" "rk/x\n")[0])

    def test_the_library_does_not_end_the_process(self):
        for call in ("abort();", "std::exit(1);", "throw 3;"):
            self.assertEqual(len(problems("src/base/a.cc", f"void F() {{ {call} }}\n")), 1, call)
        self.assertEqual(problems("src/base/a.cc", "void F() { job.abort(1); DoAbort(); }  // never abort()\n"), [])

    def test_sleeps(self):
        self.assertEqual(len(problems("tests/unit/a.cc", "void F() { usleep(3); }\n")), 1)
        self.assertEqual(problems("tests/process/a.cc", "void F() { usleep(3); }\n"), [])


class Files(unittest.TestCase):
    def test_dead_files(self):
        self.assertIn("nobody builds it", problems("src/base/a.cc", "int x;\n", {"src/base/CMakeLists.txt": "ba.cc"})[0])
        self.assertEqual(problems("src/base/a.cc", "int x;\n", {"src/base/CMakeLists.txt": "add(x a.cc)"}), [])
        self.assertEqual(problems("src/transport/tcp/a.cc", "int x;\n", {"src/transport/CMakeLists.txt": "tcp/a.cc"}), [])

    def test_links(self):
        pages = {"docs/a.md": b"# What `a` is: (1)\n", "src/b.cc": b""}

        def dead(text):
            return [said for _, said in tidy.check_links("docs/c.md", {**pages, "docs/c.md": text.encode()})]

        self.assertEqual(dead("## D\n[a](a.md#what-a-is-1) [b](../src/b.cc) [s](../src) [d](#d) [h](https://h/x)\n"), [])
        self.assertIn("where nothing is", dead("[a](b.md)\n")[0])
        self.assertIn("no such heading", dead("[a](a.md#what)\n")[0])
        self.assertIn("no such heading", dead("```\n# d\n```\n[d](#d)\n")[0])

    def test_blobs(self):
        self.assertIn("at most", list(tidy.check_blob("a", b"x" * 600000))[0][1])
        self.assertIn("binary", list(tidy.check_blob("a", b"\0"))[0][1])
        self.assertIn("must be empty", list(tidy.check_blob("tests/tsan.supp", b"race:x\n"))[0][1])

    def test_headers(self):
        good = "// What it is.\n#ifndef FTAR_BASE_A_H_\n#define FTAR_BASE_A_H_\n#endif\n"
        self.assertEqual(problems("src/base/a.h", good), [])
        self.assertEqual(len(problems("src/base/b.h", good)), 1)
        self.assertEqual(len(problems("src/base/a.h", good.split("\n", 1)[1])), 1)


if __name__ == "__main__":
    unittest.main()
