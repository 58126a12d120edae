#!/usr/bin/env python3
"""docs/adding_a_family.md shows the toy family as it is: its blocks of C, one after the other, are toy/toy.c. Blank
lines and lines that only divide do not count.

    python3 tests/families/test_guide.py PROGRAM
"""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def pick_lines(text):
    return [line for line in text.splitlines() if line.strip() and not line.startswith("/* -----")]


class GuideTest(unittest.TestCase):
    def test_the_code_is_that_of_the_file(self):
        page = (ROOT / "docs/adding_a_family.md").read_text()
        blocks = re.findall(r"^```c\n(.*?)^```$", page, re.M | re.S)
        self.assertGreater(len(blocks), 4)
        self.assertEqual(pick_lines("".join(blocks)), pick_lines((ROOT / "tests/families/toy/toy.c").read_text()))

    def test_the_files_it_names_exist(self):
        page = (ROOT / "docs/adding_a_family.md").read_text()
        paths = re.findall(r"`((?:src|tests)/[\w/.]+\.\w+)`", page)
        self.assertGreater(len(paths), 6)
        for path in paths:
            self.assertTrue((ROOT / path).is_file(), path)

    def test_it_is_short(self):
        self.assertLess(len((ROOT / "tests/families/toy/toy.c").read_text().splitlines()), 150)


if __name__ == "__main__":
    unittest.main(argv=[__file__])
