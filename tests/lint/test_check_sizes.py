#!/usr/bin/env python3
"""Tries out check_sizes.py: test_check_sizes.py ROOT. Plants one fault at a time in a small tree."""
import unittest

from plant import Planted  # from the folder of this file, as is what comes next
import check_sizes

FUNCTION = "void f(void)\n{{\n{}}}\n"
GOOD = {
    "src/base/a.c": '#include "base/x_internal.h"\n' + FUNCTION.format("    g();\n" * 57),
    "src/base/b.c": '#include "base/x_internal.h"\n',
    "src/base/x_internal.h": "void g(void);\n",
    "docs/page.md": "[a page](" + "x" * 130 + ")\n" + "y" * 130 + "\n| a row |\n" + "z" * 60 + " " + "z" * 59 + "\n",
    "docs/wide.md": "wide " * 30 + "\n",
    "tests/lint/wide_pages.txt": "docs/wide.md\n",
}
BAD = (
    ("src/base/long.c", "\n" * 701, "src/base/long.c: 701 lines"),
    ("tests/long.py", "\n" * 801, "tests/long.py: 801 lines"),
    ("src/base/big.c", "\n" + FUNCTION.format("    g();\n" * 58), "src/base/big.c:3: a function of 61 lines"),
    ("src/base/y_internal.h", "int x;\n", "src/base/y_internal.h: is included by nobody"),
    ("src/base/b.c", "int x;\n", "is included by src/base/a.c alone"),
    ("docs/adr/new.md", "short\n" + "wide " * 30 + "\n", "docs/adr/new.md:2: wider than 120"),
    ("docs/new.md", "| " + "cell | " * 30 + "\n", "docs/new.md:1: wider than 120"),
    ("docs/wide.md", "short\n", "take it off the list"),
    ("tests/lint/wide_pages.txt", "docs/wide.md\ndocs/gone.md\n", "docs/gone.md does not exist"))


class Faults(Planted):
    lint, good, bad = check_sizes, GOOD, BAD


if __name__ == "__main__":
    unittest.main(defaultTest="Faults")
