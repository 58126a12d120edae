#!/usr/bin/env python3
"""Tries out check_families.py: test_check_families.py ROOT. Plants one fault at a time in a small tree."""
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import check_families  # from the folder of this file

GOOD = {
    "src/families/families.def": "FAMILY(parallel)\nFAMILY(serial)\n",
    "src/families/parallel/parallel.c": 'const td_family td_family_parallel = {.name = "parallel",\n.alias = "at_once"};\n',
    "src/families/serial/serial.c": 'const td_family td_family_serial = {.name = "serial"};\n',
    "src/train/train.c": '/* of "parallel" and td_family_serial */\nint x; // "serial"\nputs("/* done in parallel */");\n'
                         'f("serialised", "at_once_more", is_serial);\n',
}


class Planted(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.root)
        for path, text in GOOD.items():
            self.write(path, text)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def test_a_good_tree_passes(self):
        check_families.check_tree(self.root)
        self.assertEqual(check_families.faults, [])

    def test_each_fault_is_found(self):
        for path, text, expected in (
                ("src/train/a.c", '\nif (is("parallel")) f();\n', 'src/train/a.c:2: "parallel" names the family parallel'),
                ("src/train/a.c", '/* two\nlines */ f("at_once");\n', 'src/train/a.c:2: "at_once" names'),
                ("src/settings/table.c", 'HELP("serial: only here")\n', '"serial: only here" names the family serial'),
                ("src/synth/a.h", "extern const td_family td_family_serial;\n", "td_family_serial names"),
                ("src/synth/a.h", "void td_parallel_speak(void);\n", "td_parallel_speak names"),
                ("src/synth/a.h", "TD_SERIAL_KEYS(X)\n", "TD_SERIAL_KEYS names"),
                ("src/cli/a.def", '#include "families/serial/serial.h"\n', "names the family serial"),
                ("src/families/serial/b.c", "td_parallel_speak();\n", "names the family parallel")):
            with self.subTest(path=path, text=text):
                self.write(path, text)
                check_families.check_tree(self.root)
                (self.root / path).unlink()
                self.assertEqual(len(check_families.faults), 1, check_families.faults)
                self.assertIn(expected, check_families.faults[0])


if __name__ == "__main__":
    sys.argv.pop()
    unittest.main()
