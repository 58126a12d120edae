#!/usr/bin/env python3
"""Voices of letters and of phonemes: which one a training makes, what they do without espeak-ng, and whether they say
what installed documents have (scripts/speak_documents.sh, a small number of sentences).

    python3 tests/cli/test_phonemes.py /path/to/tandem

Needs only Python's standard library. espeak-ng is among the packages of scripts/packages.txt; it is hidden by an empty
file in its place.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from tones import write_wav

PROGRAM = "./tandem"
SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")
TEXTS = ["The quick brown fox jumps over the lazy dog.", "We measure the joy of a big chair, then vanish."]


class Phonemes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="tandem-phonemes-")
        cls.addClassCleanup(cls.shared.cleanup)
        cls.data = os.path.join(cls.shared.name, "set")
        os.makedirs(os.path.join(cls.data, "wavs"))
        with open(os.path.join(cls.data, "metadata.csv"), "w", encoding="utf-8") as file:
            file.writelines(f"r{i}|{TEXTS[i % 2]}\n" for i in range(6))
        for i in range(6):
            write_wav(os.path.join(cls.data, "wavs", f"r{i}.wav"), [8000 * (k // 50 % 2) - 4000 for k in range(26000)])
        hidden = os.path.join(cls.shared.name, "hidden")
        os.makedirs(hidden)
        open(os.path.join(hidden, "libespeak-ng.so.1"), "w", encoding="utf-8").close()
        cls.without = {**os.environ, "LD_LIBRARY_PATH": hidden}

    def train(self, name, *arguments, steps=1, code=0, env=None):
        folder = os.path.join(self.shared.name, name)
        done = subprocess.run([PROGRAM, "train", "--model-device", "cpu", "--train-data", self.data, "--checkpoint-dir",
                               folder, "--model-size", "pico", "--batch-size", "2", "--language", "en", "--max-steps",
                               str(steps), "--val-fraction", "0", "--max-mel-frames", "400", "--set",
                               "model.speaker_encoder=false", *arguments],
                              capture_output=True, text=True, timeout=240, env=env)
        self.assertEqual(done.returncode, code, (done.stdout, done.stderr))
        return os.path.join(folder, f"checkpoint-{steps}.safetensors"), done.stderr

    def kind_of(self, voice):
        with open(voice, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        return header["__metadata__"]["token_kind"]

    def test_auto(self):
        voice, stderr = self.train("auto", "--set", "data.phonemes=auto")
        self.assertEqual(self.kind_of(voice), "phonemes")
        self.assertIn("phonemes of espeak-ng", stderr)
        letters, stderr = self.train("letters", "--set", "data.phonemes=auto", env=self.without)
        self.assertEqual(self.kind_of(letters), "characters")
        self.assertIn("tokens are letters; libespeak-ng.so.1 is not installed: install", stderr)
        longer, _ = self.train("letters", "--set", "data.phonemes=auto", steps=2)  # as it began
        self.assertEqual(self.kind_of(longer), "characters")
        _, stderr = self.train("none", "--phonemes", env=self.without, code=1)
        self.assertIn("install espeak-ng", stderr)

    def test_a_voice_says_what_to_install(self):
        voice, _ = self.train("auto", "--set", "data.phonemes=auto")
        output = os.path.join(self.shared.name, "a.wav")
        for env, code in ((None, 0), (self.without, 1)):
            done = subprocess.run([PROGRAM, "synth", "--checkpoint", voice, "--text", "Hello.", "-o", output, "--device",
                                   "cpu"], capture_output=True, text=True, timeout=240, env=env)
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn("the voice was trained with phonemes: libespeak-ng.so.1 is not installed: install espeak-ng",
                      done.stderr)

    def test_documents(self):
        """Nobody wrote these sentences for a voice; none of them may be an error."""
        voices = [self.train("auto", "--set", "data.phonemes=auto")[0], self.train("plain")[0]]
        done = subprocess.run([os.path.join(SCRIPTS, "speak_documents.sh"), *voices, "--sentences", "40", "--json"],
                              capture_output=True, text=True, timeout=400, env={**os.environ, "TANDEM": PROGRAM})
        self.assertEqual(done.returncode, 0, (done.stdout, done.stderr))
        told = json.loads(done.stdout)
        count = sum(told["sentences"].values())
        self.assertGreaterEqual(told["sentences"]["en"], 10)  # licences are always installed
        for result in told["voices"].values():
            self.assertEqual((result["errors"], result["spoken"]), ([], count))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
