#!/usr/bin/env python3
"""`prepare`, `inspect` and `bench text` as users meet them: what they tell, what they refuse, and that only what
has changed is done again.

    python3 tests/cli/test_data.py /path/to/tandem

Needs only Python's standard library. Every test has a dataset and a cache of its own.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import wave

PROGRAM = "./tandem"
ROWS = [("a", "It cost $5."), ("b", "Two cats."), ("c", "In 1999 it rained."), ("d", "Dr. Smith waited.")]


class DataTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-data-")
        self.addCleanup(self.folder.cleanup)
        self.root = os.path.join(self.folder.name, "set")
        os.makedirs(os.path.join(self.root, "wavs"))
        self.write_table([f"{name}|{text}" for name, text in ROWS])
        for name, _ in ROWS:
            self.write_wav(name, 22050)

    def write_table(self, lines, name="metadata.csv"):
        with open(os.path.join(self.root, name), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def write_wav(self, name, frames):
        with wave.open(os.path.join(self.root, "wavs", name + ".wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(22050)
            file.writeframes(b"\1\2" * frames)

    def run_program(self, *arguments, code=0):
        env = {k: v for k, v in os.environ.items() if not k.startswith("TANDEM_")}
        env["XDG_CACHE_HOME"] = os.path.join(self.folder.name, "cache")
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env=env, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def prepare(self, *options):
        done = self.run_program("prepare", "--train-data", self.root, "--language", "en", "--json", *options)
        return json.loads(done.stdout)

    def test_prepare_tells_and_keeps(self):
        first = self.prepare()["train"]
        self.assertEqual((first["rows"], first["val"], first["bad"]), (4, 1, 0))
        self.assertEqual((first["normalised"], first["recordings_read"], first["from_cache"]), (4, 4, False))
        self.assertAlmostEqual(first["hours"] * 3600, 4, places=6)
        self.assertEqual(first["languages"], {"en": 4})
        self.assertEqual(first["rates"], [{"rate_hz": 22050, "rows": 4}])
        self.assertTrue(os.path.exists(first["cache"]))
        second = self.prepare()["train"]
        self.assertEqual((second["normalised"], second["recordings_read"], second["from_cache"]), (0, 0, True))
        self.write_table([f"{name}|{text}" for name, text in ROWS[:3]] + ["d|Dr. Smith waited!"])
        third = self.prepare()["train"]
        self.assertEqual((third["normalised"], third["recordings_read"]), (1, 0))
        self.assertIn("metadata has changed", third["why"])

    def test_no_cache_keeps_nothing(self):
        document = self.prepare("--no-cache")
        self.assertIsNone(document["train"]["cache"])
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "cache")))

    def test_text_output(self):
        out = self.run_program("prepare", "--train-data", self.root).stdout
        for words in ("4 normalised", "3 to train, 1 to validate, 0 bad", "22050 Hz: 4", "ready in"):
            self.assertIn(words, out)

    def test_bad_rows_are_named(self):
        self.write_table([f"{name}|{text}" for name, text in ROWS] + ["no bar", "gone|Not there."])
        done = self.run_program("prepare", "--train-data", self.root, code=1)
        self.assertIn("1 of 6 rows are bad", done.stderr)
        self.assertIn("metadata.csv:5: 0 bars", done.stderr)
        done = self.run_program("prepare", "--train-data", self.root, "--set", "data.max_bad_fraction=0.5")
        self.assertIn("metadata.csv:6: wavs/gone.wav is not there", done.stderr)
        document = json.loads(self.run_program("inspect", self.root, "--json").stdout)
        self.assertEqual([row["line"] for row in document["dataset"]["bad_rows"]], [5, 6])

    def test_validation_data_has_its_own_table(self):
        os.rename(os.path.join(self.root, "metadata.csv"), os.path.join(self.root, "metadata_train.csv"))
        self.write_table(["e|Two cats."], "metadata_eval.csv")
        self.write_wav("e", 22050)
        document = self.prepare()
        self.assertEqual((document["train"]["train"], document["val"]["rows"]), (4, 1))
        self.assertEqual(document["train"]["symbols"], document["val"]["symbols"])

    def test_inspect_shows_caches_and_refuses_the_rest(self):
        cache = self.prepare()["train"]["cache"]
        document = json.loads(self.run_program("inspect", cache, "--json").stdout)
        self.assertEqual((document["kind"], document["rows"]), ("cache", 4))
        self.assertIn("it cost five dollars", self.run_program("inspect", cache).stdout)
        self.assertIn("22050 Hz", self.run_program("inspect", os.path.join(self.root, "metadata.csv")).stdout)
        with open(cache, "r+b") as file:
            file.truncate(100)
        self.assertIn("cut short", self.run_program("inspect", cache, code=1).stderr)
        self.assertIn("is not there", self.run_program("inspect", cache + "x", code=1).stderr)
        wav = os.path.join(self.root, "wavs", "a.wav")
        self.assertIn("not a prepared dataset", self.run_program("inspect", wav, code=1).stderr)

    def test_wrong_usage_is_refused(self):
        self.assertIn("--train-data", self.run_program("prepare", code=2).stderr)
        self.run_program("inspect", code=2)
        for options, words in (
            (["--language", "klingon"], "klingon"),
            (["--columns", "id|txet"], "txet"),
            (["--speaker-pattern", "("], "--speaker-pattern"),
            (["--phonemes", "--tokenizer", "x.json"], "exclude each other"),
        ):
            done = self.run_program("prepare", "--train-data", self.root, *options, code=2)
            self.assertIn(words, done.stderr)
        done = self.run_program("prepare", "--train-data", self.root + "x", code=1)
        self.assertIn("is not there", done.stderr)

    def test_bench_text_json(self):
        done = self.run_program("bench", "text", "--lines", "300", "--workers", "2", "--rounds", "2", "--json")
        document = json.loads(done.stdout)
        self.assertEqual((document["lines"], document["workers"]), (300, 2))
        for key in ("cold_s", "cached_s", "lines_per_s"):
            self.assertGreater(document[key], 0)
        self.assertLess(document["cached_s"], document["cold_s"])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
