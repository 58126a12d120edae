#!/usr/bin/env python3
"""What `synth` does with texts and outputs that users have: characters that the voice has not learnt, sentences that
are too long for it, a sentence a line, pipes and links.

    python3 tests/cli/test_findings_texts.py /path/to/tandem

Needs only Python's standard library. More of it in tests/synth and tests/text/test_adapt.c.
"""

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import wave

from tones import write_wav

PROGRAM = "./tandem"


class Texts(unittest.TestCase):
    """With a voice after one step of training, which knows the space, the full stop and ten letters."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="tandem-texts-")
        cls.addClassCleanup(cls.shared.cleanup)
        root, folder = (os.path.join(cls.shared.name, name) for name in ("set", "run"))
        os.makedirs(os.path.join(root, "wavs"))
        with open(os.path.join(root, "metadata.csv"), "w", encoding="utf-8") as file:
            file.writelines(f"r{i}|Say {'abcd'[i % 4]} now, net.\n" for i in range(8))
        for i in range(8):
            tone = [8000 * (k // 50 % 2) - 4000 for k in range(9000 + 99 * i)]
            write_wav(os.path.join(root, "wavs", f"r{i}.wav"), tone)
        subprocess.run([PROGRAM, "train", "--model-device", "cpu", "--train-data", root, "--checkpoint-dir", folder,
                        "--model-size", "pico", "--batch-size", "2", "--language", "en", "--max-steps", "1",
                        "--val-fraction", "0", "--max-mel-frames", "96", "--set", "model.speaker_encoder=false"],
                       capture_output=True, check=True, timeout=240)
        cls.voice = os.path.join(folder, "checkpoint-1.safetensors")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-texts-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def synth(self, *arguments, code=0, **more):
        done = subprocess.run([PROGRAM, "synth", "--checkpoint", self.voice, *arguments, "--device", "cpu"],
                              capture_output=True, text=True, timeout=240, **more)
        self.assertEqual(done.returncode, code, (done.stdout, done.stderr))
        return done.stderr

    def test_finding_05_unknown_characters(self):
        self.synth("--text", "Say a, now. No toy.", "-o", self.path("plain.wav"), "--strict-text")
        stderr = self.synth("--text", "(\u201cS\u00e4y\u201d a; n'o-w! No toy\u2026", "-o", self.path("a.wav"))
        self.assertNotIn("warning", stderr)
        stderr = self.synth("--text", "Say \u0436a, now. \u6f22! No \u6f22toy.", "-o", self.path("b.wav"))
        self.assertEqual(stderr.count("warning"), 1)
        self.assertIn("'\u0436' (U+0436), '\u6f22' (U+6F22) 2 times", stderr)
        self.assertEqual(self.read("b.wav"), self.read("plain.wav"))
        stderr = self.synth("--text", "say q now", "-o", self.path("c.wav"), "--strict-text", code=1)
        self.assertIn("'q' (U+0071)", stderr)
        self.assertIn("U+6F22", self.synth("--text", "\u6f22", "-o", self.path("c.wav"), code=2))
        self.assertFalse(os.path.exists(self.path("c.wav")))

    def test_letters_of_the_table_that_no_training_text_had(self):
        """They are in the table, and still written with others, or left out: nobody has heard them."""
        shown = subprocess.run([PROGRAM, "inspect", self.voice], capture_output=True, text=True, check=True).stdout
        self.assertIn("!\"'(),-.:;?abcdefghijklmnopqrstuvwxyz", shown)
        self.synth("--text", "Say no.", "-o", self.path("plain.wav"), "--strict-text")
        stderr = self.synth("--text", "\"Zay\" gno!", "-o", self.path("a.wav"))
        self.assertIn("'g' (U+0067)", stderr)
        self.assertEqual(self.read("a.wav"), self.read("plain.wav"))

    def test_lexicon(self):
        with open(self.path("words.txt"), "w", encoding="utf-8") as file:
            file.write("xyz\tsay now\nten\t/t\u025bn/\n")
        self.synth("--text", "No say now, a ten.", "-o", self.path("plain.wav"))
        stderr = self.synth("--text", "No XYZ, a ten.", "-o", self.path("a.wav"), "--lexicon", self.path("words.txt"))
        self.assertEqual(self.read("a.wav"), self.read("plain.wav"))
        self.assertIn("trained with letters", stderr)
        stderr = self.synth("--text", "A ten.", "-o", self.path("b.wav"), "--lexicon", self.path("words.txt"),
                            "--strict-text", code=1)
        self.assertIn("trained with letters", stderr)
        with open(self.path("words.txt"), "a", encoding="utf-8") as file:
            file.write("no tab\n")
        stderr = self.synth("--text", "No.", "-o", self.path("b.wav"), "--lexicon", self.path("words.txt"), code=1)
        self.assertIn("words.txt:3: no tab", stderr)
        self.assertFalse(os.path.exists(self.path("b.wav")))

    def count_frames(self, name):
        with wave.open(self.path(name), "rb") as file:
            return file.getnframes()

    def test_ssml(self):
        self.synth("--text", "No toy.", "-o", self.path("plain.wav"))
        self.synth("--text", "<speak>No toy.<break time=\"500ms\"/></speak>", "-o", self.path("pause.wav"))
        self.assertEqual(self.count_frames("pause.wav"), self.count_frames("plain.wav") + 22050 // 2)
        self.synth("--text", "<speak><prosody rate=\"50%\">No toy.</prosody></speak>", "-o", self.path("slow.wav"))
        self.synth("--text", "No toy.", "--speed", "0.5", "-o", self.path("half.wav"))
        self.assertEqual(self.read("slow.wav"), self.read("half.wav"))
        self.assertGreater(self.count_frames("slow.wav"), self.count_frames("plain.wav"))
        stderr = self.synth("--text", "<speak>No <emphasis>toy</emphasis>.</speak>", "-o", self.path("b.wav"))
        self.assertEqual(stderr.count("warning"), 1)
        self.assertIn("<emphasis> is not known", stderr)
        self.assertEqual(self.read("b.wav"), self.read("plain.wav"))
        stderr = self.synth("--text", "<speak>No <b>toy</speak>", "-o", self.path("c.wav"), code=1)
        self.assertIn("line 1, column 17: </speak> where </b> is due", stderr)

    def test_a_binary_is_named(self):
        with open(self.path("binary.txt"), "wb") as file:
            file.write(b"say\0now")
        stderr = self.synth("--text-file", self.path("binary.txt"), "-o", self.path("a.wav"), code=1)
        self.assertIn("binary.txt: the text has a zero byte", stderr)

    def test_finding_06_long_sentences(self):
        words = " ".join(["say now a net day"] * 20)
        self.synth("--text", words, "--speed", "0.25", "-o", self.path("a.wav"))
        with wave.open(self.path("a.wav"), "rb") as file:
            self.assertGreater(file.getnframes(), 256 * 4 * len(words) * 9 // 10)

    def test_finding_22_a_file_for_each_line(self):
        with open(self.path("lines.txt"), "w", encoding="utf-8") as file:
            file.write("Say a now.\r\n\n...\nNo toy, no net.")
        stderr = self.synth("--text-file", self.path("lines.txt"), "-o", self.path("new/out/"))
        self.assertIn("4/4", stderr)
        self.assertEqual(sorted(os.listdir(self.path("new/out"))), ["001.wav", "004.wav"])
        self.synth("--text", "No toy, no net.", "-o", self.path("a.wav"))
        self.assertEqual(self.read("new/out/004.wav"), self.read("a.wav"))
        self.assertIn("nothing to say", self.synth("-", "-o", self.path("b/"), code=2, input="...\n\n"))
        self.assertIn("'9'", self.synth("-", "-o", self.path("b/"), "--speaker", "9", code=2, input="Say a.\n"))
        self.assertIn("--text-file", self.synth("--text", "say a", "-o", self.path("b/"), code=2))

    def test_finding_22_files_come_one_by_one(self):
        with subprocess.Popen([PROGRAM, "synth", "--checkpoint", self.voice, "-", "-o", self.path("out/"), "--device",
                               "cpu"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
            run.stdin.write(b"Say a now.\n" * 5000)
            run.stdin.close()
            while run.poll() is None and not os.path.exists(self.path("out/0001.wav")):
                time.sleep(0.01)
            self.assertIsNone(run.poll())
            run.kill()
        spoken = subprocess.run([PROGRAM, "synth", "--checkpoint", self.voice, "--text", "Say a now. " * 200, "--device",
                                 "cpu", "-o", self.path("long.wav"), "--json"], capture_output=True, check=True)
        told = json.loads(spoken.stdout)
        self.assertLess(told["first_audio_s"], 0.5 * told["work_s"])
        with wave.open(self.path("out/0001.wav"), "rb") as file:
            self.assertGreater(file.getnframes(), 0)

    def test_finding_23_pipes_and_links(self):
        self.synth("--text", "say a", "-o", self.path("a.wav"))
        with open(self.path("target"), "wb") as file:
            file.write(b"old")
        os.symlink("target", self.path("link.wav"))
        os.symlink("made", self.path("dangling.wav"))
        for link, target in (("link.wav", "target"), ("dangling.wav", "made")):
            self.synth("--text", "say a", "-o", self.path(link))
            self.assertTrue(os.path.islink(self.path(link)))
            self.assertEqual(self.read(target), self.read("a.wav"))
        os.mkfifo(self.path("pipe.wav"))
        with subprocess.Popen(["cat", self.path("pipe.wav")], stdout=subprocess.PIPE) as reader:
            self.synth("--text", "say a", "-o", self.path("pipe.wav"))
            streamed, whole = reader.stdout.read(), self.read("a.wav")
        self.assertEqual(streamed[44:], whole[44:])  # the same samples
        self.assertEqual(streamed[8:40], whole[8:40])  # behind a header that does not know how many
        self.assertEqual(streamed[4:8] + streamed[40:44], b"\xff" * 8)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("pipe.wav")).st_mode))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = sys.argv.pop(1)
    unittest.main()
