#!/usr/bin/env python3
"""The doctor of datasets in `tandem inspect`: planted faults are named, good rows are not accused, --fix and --html.

    python3 tests/cli/test_dataset_check.py /path/to/tandem

Needs espeak-ng and Python's standard library.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import planted as faults

PROGRAM = "./tandem"
COUNTS = {"swapped": 6, "clipped": 3, "noisy": 3, "foreign": 3, "copied": 3, "dull": 2, "faint": 2, "cut": 2}
N_SENTENCES = 90
HERE = os.path.dirname(os.path.abspath(__file__))


def inspect(*arguments, code=0):
    done = subprocess.run([PROGRAM, "inspect", *arguments, "--no-cache", "--quiet"], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def inspect_json(*arguments):
    return json.loads(inspect(*arguments, "--json").stdout)


class DatasetCheckTest(unittest.TestCase):
    """One dataset for all: nothing may change it."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-check-")
        cls.root = os.path.join(cls.folder.name, "set")
        with open(os.path.join(HERE, "../../scripts/demo_sentences.txt"), encoding="utf-8") as file:
            sentences = file.read().splitlines()[:N_SENTENCES]
        cls.planted = faults.make(cls.root, sentences, COUNTS)
        with open(os.path.join(cls.root, "metadata.csv"), encoding="utf-8") as file:
            cls.lines = file.read().splitlines()
        cls.document = inspect_json(cls.root)
        cls.check = cls.document["check"]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def named(self, kind):
        named, _ = faults.judge(self.planted, self.document)
        return named[kind]

    def test_swapped_texts(self):
        self.assertEqual(self.check["fitted"], len(self.lines))
        found, planted = self.named("swapped")
        self.assertGreaterEqual(found, planted - 1)

    def test_clipped(self):
        self.assertEqual(self.named("clipped"), [3, 3])

    def test_noisy(self):
        self.assertEqual(self.named("noisy"), [3, 3])

    def test_foreign(self):
        self.assertEqual(self.named("foreign"), [3, 3])
        messages = [f["message"] for f in self.check["findings"] if f["check"] == "language"]
        self.assertIn("de, not en", "; ".join(messages))

    def test_copied(self):
        self.assertEqual(self.named("copied"), [3, 3])
        for finding in self.check["findings"]:  # the later of two is the copy
            if finding["check"] == "same_recording":
                self.assertTrue(finding["id"].startswith("zcopy"), finding)

    def test_dull(self):
        self.assertEqual(self.named("dull"), [2, 2])

    def test_faint(self):
        self.assertEqual(self.named("faint"), [2, 2])

    def test_cut(self):
        self.assertEqual(self.named("cut"), [2, 2])

    def test_good_rows_are_not_accused(self):
        _, accused = faults.judge(self.planted, self.document)
        self.assertLessEqual(len(accused), 0.02 * (len(self.lines) - len(self.planted)), accused)

    def test_findings_tell(self):
        order = [(not f["leave_out"], -f["excess"]) for f in self.check["findings"]]
        self.assertEqual(order, sorted(order))
        for finding in self.check["findings"]:
            self.assertEqual(self.lines[finding["line"] - 1].split("|")[0], finding["id"])
            self.assertTrue(finding["message"] and finding["advice"])
        self.assertEqual(sum(c["count"] for c in self.check["checks"]), len(self.check["findings"]))
        self.assertEqual(len({f["id"] for f in self.check["findings"]}), self.check["accused"])

    def test_for_people(self):
        out = inspect(self.root).stdout
        self.assertRegex(out, r"checks +96 rows, \d+ with findings")
        self.assertIn("leave out      ", out)
        self.assertIn("--json lists all", out)

    def test_fix_copies_what_is_good(self):
        target = os.path.join(self.root, "clean.csv")
        self.addCleanup(os.unlink, target)
        document = inspect_json(self.root, "--fix", target)
        out = {f["id"] for f in self.check["findings"] if f["leave_out"]}
        with open(target, encoding="utf-8") as file:
            kept = file.read().splitlines()
        self.assertEqual(kept, [line for line in self.lines if line.split("|")[0] not in out])
        self.assertEqual(document["fixed"], {"output": target, "kept": len(kept), "left_out": len(self.lines) - len(kept),
                                             "beside_recordings": True})
        with open(os.path.join(self.root, "metadata.csv"), encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(), self.lines)
        again = inspect_json(target)
        self.assertEqual((again["dataset"]["rows"], again["dataset"]["bad"]), (len(kept), 0))
        self.assertLessEqual(again["check"]["left_out"], 1)

    def test_fix_never_touches_the_dataset(self):
        for name in ("metadata.csv", "wavs/row0000.wav"):
            done = inspect(self.root, "--fix", os.path.join(self.root, name), code=2)
            self.assertIn("never changed", done.stderr)
        elsewhere = os.path.join(self.folder.name, "clean.csv")
        self.assertFalse(inspect_json(self.root, "--fix", elsewhere)["fixed"]["beside_recordings"])

    def test_page(self):
        page = os.path.join(self.folder.name, "page.html")
        self.assertEqual(inspect_json(self.root, "--html", page)["page"], page)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertNotRegex(text, r"https?://")
        data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S).group(1))
        self.assertEqual({row["id"] for row in data["rows"]}, {f["id"] for f in self.check["findings"]})
        for row in data["rows"]:
            picture, sound = (base64.b64decode(row[key].split(",")[1]) for key in ("picture", "sound"))
            self.assertEqual((picture[:4], sound[:4]), (b"\x89PNG", b"fLaC"))
            self.assertTrue(row["text"] and row["findings"])

    def test_without_listening_only_texts_are_judged(self):
        check = inspect_json(self.root, "--no-listen")["check"]
        self.assertEqual(check["heard"], 0)
        self.assertEqual({f["check"] for f in check["findings"]}, {"language", "same_text"})


class LayoutTest(unittest.TestCase):
    """Few rows: what needs no statistics, in other layouts."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-check-")
        self.addCleanup(self.folder.cleanup)
        self.root = self.folder.name
        self.source = os.path.join(self.root, "spoken.wav")
        faults.speak([("en-us", self.source, "The brave captain carried the silver lantern.")])

    def add_wav(self, path, alter=None):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        samples, rate = faults.read_wav(self.source)
        faults.write_wav(path, alter(samples) if alter else samples, rate)

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_tree_becomes_a_table(self):
        for name in ("p1_001", "p1_002", "p1_003"):
            self.write(f"txt/p1/{name}.txt", f"This is sentence {name[-1]}.\n")
        self.add_wav("wav48/p1/p1_001.wav")
        self.add_wav("wav48/p1/p1_002.wav")
        self.add_wav("wav48/p1/p1_003.wav", lambda x: [0] * len(x))
        target = os.path.join(self.root, "clean.csv")
        document = inspect_json(self.root, "--fix", target)
        self.assertEqual(document["dataset"]["layout"], "vctk")
        self.assertEqual({(f["id"], f["check"]) for f in document["check"]["findings"] if f["leave_out"]},
                         {("p1/p1_002", "same_recording"), ("p1/p1_003", "silent")})
        with open(target, encoding="utf-8") as file:
            self.assertEqual(file.read(), "audio_file|text|speaker_name\nwav48/p1/p1_001.wav|This is sentence 1.|p1\n")
        again = inspect_json(target)
        self.assertEqual((again["dataset"]["layout"], again["dataset"]["rows"]), ("coqui", 1))

    def test_header_stays_and_bad_rows_go(self):
        self.add_wav("wavs/a.wav")
        self.add_wav("wavs/b.wav", lambda x: [0.3 * v + 3000 for v in x])
        self.add_wav("wavs/c.wav", lambda x: [0] * 40000 + list(x))
        self.write("metadata.csv", "\ufeffid|text\r\n\r\na|One row.\r\nbad line\r\ngone|No file.\r\nb|Two rows.\r\nc|Three rows.")
        target = os.path.join(self.root, "clean.csv")
        document = inspect_json(self.root, "--fix", target)
        with open(target, encoding="utf-8", newline="") as file:
            self.assertEqual(file.read(), "\ufeffid|text\r\na|One row.\r\n")
        found = {(f["id"], f["check"]) for f in document["check"]["findings"]}
        self.assertLessEqual({("b", "offset"), ("c", "silence"), ("b", "same_recording"), ("c", "same_recording")}, found)
        self.assertEqual(document["fixed"]["left_out"], 4)


if __name__ == "__main__":
    if shutil.which("espeak-ng") is None:
        print("skipped: espeak-ng is missing")
        sys.exit(77)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
