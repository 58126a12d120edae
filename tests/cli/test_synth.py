#!/usr/bin/env python3
"""`synth` as users meet it: copies of recordings in every format, raw samples, seeds, and what it refuses.

    python3 tests/cli/test_synth.py /path/to/tandem

Needs only Python's standard library. Speaking with a checkpoint is tried in tests/synth/test_voice.c.
"""

import array
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
import wave

PROGRAM = "./tandem"
RATE = 22050


class SynthTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-synth-")
        self.addCleanup(self.folder.cleanup)
        self.source = self.path("source.wav")
        samples = [round(8000 * math.sin(i * 0.05) * math.sin(i * 0.0004)) for i in range(RATE)]
        with wave.open(self.source, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(array.array("h", samples).tobytes())

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def synth(self, *arguments, code=0, text=True, **more):
        done = subprocess.run([PROGRAM, "synth", *arguments, "--device", "cpu"], capture_output=True, text=text,
                              timeout=240, **more)
        self.assertEqual(done.returncode, code, (done.stdout, done.stderr))
        return done

    def refuse(self, words, *arguments, code=2, **more):
        self.assertIn(words, self.synth(*arguments, code=code, **more).stderr)

    def test_copy(self):
        done = self.synth("--copy", self.source, "-o", self.path("a.wav"))
        self.assertIn("times real time", done.stdout)
        with wave.open(self.path("a.wav"), "rb") as file:
            self.assertEqual((file.getframerate(), file.getnchannels(), file.getsampwidth()), (RATE, 1, 2))
            self.assertEqual(file.getnframes(), RATE // 256 * 256)
            written = file.readframes(file.getnframes())
        raw = self.synth("--copy", self.source, "--output", "-", text=False)
        self.assertEqual(raw.stdout, written)
        self.assertIn(b"times real time", raw.stderr)

    def test_same_seed_same_bytes(self):
        for ending in ("wav", "flac", "ogg"):
            for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
                self.synth("--copy", self.source, "-o", self.path(f"{name}.{ending}"), "--seed", seed)
            self.assertEqual(self.read(f"a.{ending}"), self.read(f"b.{ending}"))
            self.assertNotEqual(self.read(f"a.{ending}"), self.read(f"c.{ending}"))

    def test_json(self):
        document = json.loads(self.synth("--copy", self.source, "-o", self.path("a.wav"), "--json").stdout)
        self.assertEqual((document["rate"], document["pieces"]), (RATE, 0))
        self.assertAlmostEqual(document["audio_s"], RATE // 256 * 256 / RATE)
        self.assertAlmostEqual(document["realtime_factor"], document["audio_s"] / document["work_s"])

    def test_usage(self):
        out = self.path("a.wav")
        self.refuse("nothing to say", "-o", out)
        self.refuse("more than one", "--copy", self.source, "--text", "a", "-o", out)
        self.refuse("more than one", "--text", "a", "-", "-o", out)
        self.refuse("--text", "hello", "-o", out)
        self.refuse("no output", "--copy", self.source)
        self.refuse("-o needs a value", "--copy", self.source, "-o")
        self.refuse(".wav, .flac or .ogg", "--copy", self.source, "-o", self.path("a.mp3"))
        self.refuse("--checkpoint", "--text", "hello", "-o", out)
        self.refuse("--json and -o -", "--copy", self.source, "-o", "-", "--json")
        self.refuse("--save-mel", "--copy", self.source, "-o", out, "--save-mel", self.path("m"))
        self.refuse("--speed", "--copy", self.source, "-o", out, "--speed", "9")
        self.assertFalse(os.path.exists(out))

    def test_bad_files(self):
        out = self.path("a.wav")
        self.refuse("none.wav", "--copy", self.path("none.wav"), "-o", out, code=1)
        with open(self.path("text.wav"), "w", encoding="utf-8") as file:
            file.write("no audio")
        self.refuse("not audio", "--copy", self.path("text.wav"), "-o", out, code=1)
        self.refuse("missing/a.wav", "--copy", self.source, "-o", self.path("missing/a.wav"), code=1)
        self.refuse("none.safetensors", "--checkpoint", self.path("none.safetensors"), "--text", "a", "-o", out, code=1)
        self.refuse("text.wav", "--checkpoint", self.path("text.wav"), "-", "-o", out, code=1, input="hello")
        self.refuse("none.txt", "--checkpoint", self.source, "--text-file", self.path("none.txt"), "-o", out, code=1)
        self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = sys.argv.pop(1)
    unittest.main()
