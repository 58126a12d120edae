#!/usr/bin/env python3
"""Tries out check_families.py: test_check_families.py ROOT. Plants one fault at a time in a small tree."""
import unittest

from plant import Planted  # from the folder of this file, as is what comes next
import check_families

GOOD = {
    "src/families/families.def": "FAMILY(parallel)\nFAMILY(serial)\nFAMILY(vocoder)\n",
    "src/families/parallel/parallel.c": 'const td_family td_family_parallel = {.name = "parallel",\n.alias = "at_once"};\n',
    "src/families/serial/serial.c": 'const td_family td_family_serial = {.name = "serial"};\n',
    "src/train/train.c": '/* of "parallel" and td_family_serial */\nint x; // "serial"\nputs("/* done in parallel */");\n'
                         'f("serialised", "at_once_more", is_serial);\ntd_vocoder *v = open("a vocoder");\n',
}
BAD = (
    ("src/train/a.c", '\nif (is("parallel")) f();\n', 'src/train/a.c:2: "parallel" names the family parallel'),
    ("src/train/a.c", '/* two\nlines */ f("at_once");\n', 'src/train/a.c:2: "at_once" names'),
    ("src/settings/table.c", 'HELP("serial: only here")\n', '"serial: only here" names the family serial'),
    ("src/synth/a.h", "extern const td_family td_family_serial;\n", "td_family_serial names"),
    ("src/synth/a.h", "void td_parallel_speak(void);\n", "td_parallel_speak names"),
    ("src/synth/a.h", "TD_SERIAL_KEYS(X)\n", "TD_SERIAL_KEYS names"),
    ("src/cli/a.def", '#include "families/serial/serial.h"\n', "names the family serial"),
    ("src/train/a.c", 'f(td_family_find("vocoder"));\n', "names the family vocoder"),
    ("src/train/a.c", "f(&td_family_vocoder);\n", "td_family_vocoder names"),
    ("src/families/serial/b.c", "td_parallel_speak();\n", "names the family parallel"))


class Faults(Planted):
    lint, good, bad = check_families, GOOD, BAD


if __name__ == "__main__":
    unittest.main(defaultTest="Faults")
