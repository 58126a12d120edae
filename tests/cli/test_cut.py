#!/usr/bin/env python3
"""`tandem cut` as users meet it, with an aligner that has learnt letters which are tones: a recording with a sentence too
many and one too few, going on after an interruption, choices, and recordings that nothing can be cut from.

    python3 tests/cli/test_cut.py /path/to/tandem

Needs only Python's standard library. tests/peers/cut.py measures it on speech.
"""

import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import wave

from tones import RATE, write_wav

PROGRAM = "./tandem"
HERTZ = {"a": 400, "b": 900, "c": 1800, "d": 3500}
PITCH = 1.42  # of a voice that is not the one that was learnt
TONE, GAP, PAUSE = RATE // 10, RATE // 25, RATE // 2
QUICK = ["--set", "model.width=48", "--set", "model.layers=2", "--set", "model.inside=64", "--batch-size", "8",
         "--max-steps", "220", "--lr", "0.01", "--warmup-steps", "1", "--val-every", "1000", "--sample-every", "1000",
         "--save-every", "1000"]


def sing(text, pitch=1.0):
    """A tone for each letter, a breath for each space."""
    samples = []
    for letter in text:
        if letter in HERTZ:
            turn = 2 * math.pi * pitch * HERTZ[letter] / RATE
            samples += [int(9000 * math.sin(turn * i)) for i in range(TONE)]
        samples += [0] * GAP
    return samples


def make_sentence(draw, letters):
    words = []
    while sum(map(len, words)) < letters:
        words.append("".join(draw.choice("abcd") for _ in range(draw.randint(2, 5))))
    return " ".join(words)


class CutTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-cut-")
        cls.addClassCleanup(cls.folder.cleanup)
        draw = random.Random(5)
        os.makedirs(cls.path("set/wavs"))
        with open(cls.path("set/metadata.csv"), "w", encoding="utf-8") as table:
            for i in range(24):
                text = make_sentence(draw, 6)
                table.write(f"t{i}|{text}\n")
                write_wav(cls.path(f"set/wavs/t{i}.wav"), [0] * GAP + sing(text) + [0] * GAP)
        cls.run_program("train", "--model-device", "cpu", "--train-data", cls.path("set"), "--checkpoint-dir", cls.path("run"),
                        "--family", "aligner", "--language", "en", "--no-phonemes", *QUICK)
        cls.aligner = cls.path("run/checkpoint-220.safetensors")
        cls.make_recording(draw)

    @classmethod
    def make_recording(cls, draw):
        """Ten sentences; the fourth is not in the text, and one of the text is not said."""
        sentences = [make_sentence(draw, 16) for _ in range(10)]
        samples, cls.truth = [0] * PAUSE, []
        for i, sentence in enumerate(sentences):
            start = len(samples)
            samples += sing(sentence)
            if i != 3:
                cls.truth.append((sentence + ".", start / RATE, (len(samples) - GAP) / RATE))
            samples += [0] * PAUSE
        written = [s + "." for s in sentences]
        written[3] = ""
        written.insert(7, make_sentence(draw, 16) + ".")
        write_wav(cls.path("long.wav"), samples)
        with open(cls.path("long.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(w for w in written if w) + "\n")

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def run_program(cls, *arguments, code=0):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=240)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def cut(self, out, *more, recording="long.wav", text="long.txt", code=0):
        return self.run_program("cut", self.path(recording), "--text", self.path(text), "-o", self.path(out), "--aligner",
                                self.aligner, "--device", "cpu", *more, code=code)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def rows(self, out):
        return [json.loads(line) for line in self.read(f"{out}/cut.jsonl").splitlines()]

    def test_rows_are_what_was_said(self):
        told = json.loads(self.cut("voice", "--json").stdout)
        rows = [row for row in self.rows("voice") if row["kept"]]
        self.assertEqual([row["text"] for row in rows], [text for text, _, _ in self.truth])
        for row, (_, start, end) in zip(rows, self.truth):
            self.assertLess(abs(row["start_s"] + 0.075 - start), 0.06)
            self.assertLess(abs(row["end_s"] - 0.075 - end), 0.06)
            with wave.open(self.path(f"voice/wavs/{row['id']}.wav")) as sound:
                self.assertAlmostEqual(sound.getnframes() / RATE, row["end_s"] - row["start_s"], delta=0.001)
        self.assertEqual(told["counts"]["kept"], 9)
        self.assertEqual(told["counts"]["not heard"], 1)
        self.assertGreater(told["unwritten_s"], 1)
        self.assertEqual(told["verdict"], "")
        self.assertFalse(told["adapted"])
        self.assertFalse(os.path.exists(self.path("voice/cut.heard")))
        self.assertEqual(len(self.read("voice/metadata.csv").splitlines()), 9)
        page = self.read("voice/cut.html")
        self.assertIn(self.truth[0][0], page)
        self.assertNotIn("@DATA@", page)
        self.run_program("inspect", self.path("voice"), "--language", "en")

    def test_a_voice_that_the_aligner_does_not_know(self):
        """Each tone is higher than the aligner has learnt it; the recording teaches it."""
        draw = random.Random(6)
        sentences = [make_sentence(draw, 14) + "." for _ in range(40)]
        samples = [0] * PAUSE
        for sentence in sentences:
            samples += sing(sentence, PITCH) + [0] * PAUSE
        write_wav(self.path("high.wav"), samples)
        with open(self.path("high.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(sentences) + "\n")
        told = json.loads(self.cut("high", "--json", recording="high.wav", text="high.txt").stdout)
        self.assertTrue(told["adapted"], told)
        rows = [row["text"] for row in self.rows("high") if row["kept"]]
        self.assertGreaterEqual(len(rows), 38)
        self.assertLessEqual(set(rows), set(sentences))
        self.assertEqual([name for name in os.listdir(self.path("high")) if name.startswith(("cut.heard", "cut.own"))], [])

    def test_it_goes_on(self):
        """Killed as soon as it has heard something; the second call ends with the same files."""
        self.cut("whole")
        running = subprocess.Popen([PROGRAM, "cut", self.path("long.wav"), "--text", self.path("long.txt"), "-o",
                                    self.path("parts"), "--aligner", self.aligner, "--device", "cpu", "--quiet"])
        heard = self.path("parts/cut.heard")
        while running.poll() is None and not (os.path.exists(heard) and os.path.getsize(heard) > 16):
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
        running.wait()
        self.cut("parts")
        for name in ("metadata.csv", "cut.jsonl", "cut.csv"):
            self.assertEqual(self.read(f"parts/{name}"), self.read(f"whole/{name}"))

    def test_the_doctor_hears(self):
        """Four texts of the aligner's own dataset change places; without an aligner 24 rows are too few to be judged."""
        os.makedirs(self.path("swapped"))
        os.symlink(self.path("set/wavs"), self.path("swapped/wavs"))
        rows = [line.split("|") for line in self.read("set/metadata.csv").splitlines()]
        for a, b in ((2, 9), (5, 17)):
            rows[a][1], rows[b][1] = rows[b][1], rows[a][1]
        with open(self.path("swapped/metadata.csv"), "w", encoding="utf-8") as file:
            file.writelines("|".join(row) + "\n" for row in rows)
        for aligner, by, wanted in ((self.aligner, "aligner", {"t2", "t9", "t5", "t17"}), ("none", None, set())):
            done = self.run_program("inspect", self.path("swapped"), "--language", "en", "--json", "--no-cache", "--device",
                                    "cpu", "--aligner", aligner)
            check = json.loads(done.stdout)["check"]
            self.assertEqual(check["compared_by"], by)
            self.assertEqual({f["id"] for f in check["findings"] if f["check"] == "text"}, wanted)

    def test_choices(self):
        self.cut("chosen")
        with open(self.path("choices.txt"), "w", encoding="utf-8") as file:
            file.write("00002 drop\n00001 keep\n")
        self.run_program("cut", "--apply", self.path("choices.txt"), "-o", self.path("chosen"))
        ids = [line.split("|")[0] for line in self.read("chosen/metadata.csv").splitlines()]
        self.assertEqual(ids, ["00001", *(f"{i:05d}" for i in range(3, 10))])
        with open(self.path("choices.txt"), "w", encoding="utf-8") as file:
            file.write("00002 keep\n")
        self.run_program("cut", "--apply", self.path("choices.txt"), "-o", self.path("chosen"))
        self.assertEqual(len(self.read("chosen/metadata.csv").splitlines()), 9)
        for content, words in (("00002 perhaps\n", "is no choice"), ("77777 drop\n", "has no row 77777")):
            with open(self.path("choices.txt"), "w", encoding="utf-8") as file:
                file.write(content)
            done = self.run_program("cut", "--apply", self.path("choices.txt"), "-o", self.path("chosen"), code=1)
            self.assertIn(words, done.stderr)

    def test_recordings_that_say_nothing(self):
        write_wav(self.path("silence.wav"), [0] * (20 * RATE))
        self.assertIn("nobody speaks", self.cut("silence", recording="silence.wav", code=1).stdout)
        with open(self.path("empty.txt"), "w", encoding="utf-8"):
            pass
        self.assertIn("nothing that the aligner can read", self.cut("empty", text="empty.txt", code=2).stderr)
        self.assertIn("long.txt", self.cut("text", recording="long.txt", code=1).stderr)
        write_wav(self.path("short.wav"), sing("ab"))
        self.assertIn("verdict", self.cut("short", recording="short.wav", code=1).stdout)
        write_wav(self.path("other.wav"), sing("d" * 60 + " " + "cbcb" * 20))
        self.assertIn("is not this text", self.cut("other", recording="other.wav", code=1).stdout)

    def test_what_is_refused(self):
        os.mkfifo(self.path("pipe.wav"))
        self.assertIn("is a pipe", self.cut("pipe", recording="pipe.wav", code=1).stderr)
        done = self.cut("none", recording="none.wav", code=1)
        self.assertIn("no such audio file", done.stderr)
        done = self.run_program("cut", self.path("long.wav"), "--text", self.path("long.txt"), "-o", self.path("x"),
                                "--aligner", self.path("none.safetensors"), "--device", "cpu", code=1)
        self.assertIn("make_aligner.sh", done.stderr)
        self.assertIn("--text FILE", self.run_program("cut", self.path("long.wav"), "-o", "x", code=2).stderr)
        self.assertIn("-o DIR", self.run_program("cut", self.path("long.wav"), "--text", "x", code=2).stderr)
        os.makedirs(self.path("mine"))
        with open(self.path("mine/metadata.csv"), "w", encoding="utf-8") as file:
            file.write("a|b\n")
        self.assertIn("has a dataset already", self.cut("mine", code=2).stderr)
        self.assertEqual(self.read("mine/metadata.csv"), "a|b\n")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
