#!/usr/bin/env python3
"""A vocoder as users meet it: trained, beside a voice and inside of it, copies, streams, and what is refused.

    python3 tests/cli/test_vocoder.py /path/to/tandem

Needs only Python's standard library. More in tests/families/test_vocoder.c.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import wave

from tones import RATE, make_dataset, make_tone, write_wav

PROGRAM = "./tandem"
SMALL = ["--set", "model.width=16", "--set", "model.inside=24", "--set", "model.blocks=1", "--set", "model.kernel=3",
         "--set", "model.pitch_width=8", "--set", "training.crop=12"]


class VocoderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-vocoder-")
        cls.addClassCleanup(cls.folder.cleanup)
        root = cls.path("set")
        make_dataset(root)
        write_wav(cls.path("tone.wav"), make_tone(3, RATE))
        cls.voice = cls.train(root, "voice", "--family", "parallel", "--model-size", "pico")
        cls.vocoder = cls.train(root, "vocoder", "--family", "vocoder", *SMALL)
        cls.bundle = cls.path("bundle.safetensors")
        cls.run_program("bundle", cls.voice, cls.vocoder, "-o", cls.bundle)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def run_program(cls, *arguments, code=0, text=True):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=text, timeout=240)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    @classmethod
    def train(cls, root, name, *more):
        cls.run_program("train", "--model-device", "cpu", "--train-data", root, "--checkpoint-dir", cls.path(name),
                        "--batch-size", "2", "--max-steps", "1", *more)
        return os.path.join(cls.path(name), "checkpoint-1.safetensors")

    def synth(self, *arguments, **more):
        return self.run_program("synth", *arguments, "--device", "cpu", **more)

    def read(self, name):
        with wave.open(self.path(name), "rb") as file:
            return file.readframes(file.getnframes())

    def test_copy(self):
        self.synth("--copy", self.path("tone.wav"), "--vocoder", self.vocoder, "-o", self.path("net.wav"))
        self.synth("--copy", self.path("tone.wav"), "--vocoder", "griffin-lim", "-o", self.path("gl.wav"))
        self.synth("--copy", self.path("tone.wav"), "--vocoder", self.bundle, "-o", self.path("held.wav"))
        self.assertEqual(len(self.read("net.wav")), 2 * (RATE // 256 * 256))
        self.assertEqual(len(self.read("net.wav")), len(self.read("gl.wav")))
        self.assertNotEqual(self.read("net.wav"), self.read("gl.wav"))
        self.assertEqual(self.read("net.wav"), self.read("held.wav"))

    def test_a_voice_speaks_with_what_it_holds(self):
        say = ["--text", "Say a now."]
        self.synth("--checkpoint", self.bundle, *say, "-o", self.path("own.wav"))
        self.synth("--checkpoint", self.voice, "--vocoder", self.vocoder, *say, "-o", self.path("beside.wav"))
        self.synth("--checkpoint", self.bundle, "--vocoder", "griffin-lim", *say, "-o", self.path("gl.wav"))
        self.synth("--checkpoint", self.voice, *say, "-o", self.path("plain.wav"))
        self.assertEqual(self.read("own.wav"), self.read("beside.wav"))
        self.assertEqual(self.read("gl.wav"), self.read("plain.wav"))
        self.assertNotEqual(self.read("own.wav"), self.read("gl.wav"))
        streamed = self.synth("--checkpoint", self.bundle, *say, "-o", "-", text=False)
        self.assertEqual(streamed.stdout, self.read("own.wav"))

    def test_what_is_refused(self):
        out = self.path("x.safetensors")
        for words, arguments in (("the voice comes first", (self.vocoder, self.voice, "-o", out)),
                                 ("holds no vocoder", (self.voice, self.voice, "-o", out)),
                                 ("-o VOICE.safetensors", (self.voice, self.vocoder))):
            self.assertIn(words, self.run_program("bundle", *arguments, code=2).stderr)
        self.assertFalse(os.path.exists(out))
        done = self.synth("--checkpoint", self.voice, "--vocoder", self.voice, "--text", "a", "-o", self.path("x.wav"), code=2)
        self.assertIn("holds no vocoder", done.stderr)
        self.synth("--checkpoint", self.vocoder, "--text", "a", "-o", self.path("x.wav"), code=2)

    def test_inspect(self):
        told = json.loads(self.run_program("inspect", self.bundle, "--json").stdout)
        self.assertEqual((told["family"], told["metadata"]["vocoder.family"]), ("parallel", "vocoder"))
        alone = [json.loads(self.run_program("inspect", f, "--json").stdout) for f in (self.voice, self.vocoder)]
        self.assertEqual(told["parts"], {**alone[0]["parts"], "vocoder": alone[1]["parameters"]})
        self.assertEqual(told["parameters"], alone[0]["parameters"] + alone[1]["parameters"])
        self.assertIn(f"vocoder: {alone[1]['parameters']} parameters", self.run_program("inspect", self.bundle).stdout)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
