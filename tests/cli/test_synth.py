#!/usr/bin/env python3
"""`synth` as users meet it: copies of recordings in every format, raw samples, seeds, small voices, and what it
refuses.

    python3 tests/cli/test_synth.py /path/to/tandem

Needs only Python's standard library. More about speaking with a checkpoint in tests/synth/test_voice.c.
"""

import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import wave

from share import SHARE
from tones import RATE, write_wav

PROGRAM = "./tandem"


def make_tone(seconds, pitch=0.05):
    return [round(8000 * math.sin(i * pitch) * math.sin(i * 0.0004)) for i in range(round(seconds * RATE))]


class Synth(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-synth-")
        self.addCleanup(self.folder.cleanup)

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


class CopyTest(Synth):
    def setUp(self):
        super().setUp()
        self.source = self.path("source.wav")
        write_wav(self.source, make_tone(1))

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
        for ending in ("wav", "flac", "ogg", "mp3"):
            for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
                self.synth("--copy", self.source, "-o", self.path(f"{name}.{ending}"), "--seed", seed)
            self.assertEqual(self.read(f"a.{ending}"), self.read(f"b.{ending}"))
            self.assertNotEqual(self.read(f"a.{ending}"), self.read(f"c.{ending}"))

    def test_save_mel(self):
        self.synth("--copy", self.source, "-o", self.path("a.wav"), "--save-mel", self.path("m.safetensors"))
        content = self.read("m.safetensors")
        size, = struct.unpack("<Q", content[:8])
        self.assertEqual(json.loads(content[8:8 + size])["mel"]["shape"], [RATE // 256 + 1, 80])

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
        self.refuse("more than one", "--text", "a", "b", "-o", out)
        self.refuse("no voice", "hello", "-o", out)
        self.refuse("no output", "--copy", self.source)
        self.refuse("-o needs a value", "--copy", self.source, "-o")
        self.refuse(".wav, .flac, .ogg or .mp3", "--copy", self.source, "-o", self.path("a.aac"))
        self.refuse("--checkpoint", "--text", "hello", "-o", out)
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


class VoiceTest(Synth):
    """Two voices after one step of training: one by itself, and one that follows a recording."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="tandem-voices-")
        cls.addClassCleanup(cls.shared.cleanup)
        root = os.path.join(cls.shared.name, "set")
        os.makedirs(os.path.join(root, "wavs"))
        with open(os.path.join(root, "metadata.csv"), "w", encoding="utf-8") as file:
            file.writelines(f"r{i}|Say {'abcd'[i % 4]} now.\n" for i in range(8))
        for i in range(8):
            write_wav(os.path.join(root, "wavs", f"r{i}.wav"), make_tone(0.4, 0.05 * (i + 1)))
        cls.voice, cls.follower = (cls.train(root, name, refers) for name, refers in (("a", "false"), ("b", "true")))

    @classmethod
    def train(cls, root, name, refers):
        folder = os.path.join(cls.shared.name, name)
        done = subprocess.run([PROGRAM, "train", "--model-device", "cpu", "--train-data", root, "--checkpoint-dir", folder,
                               "--model-size", "pico", "--batch-size", "2", "--language", "en", "--max-steps", "1",
                               "--val-fraction", "0", "--set", f"model.speaker_encoder={refers}"],
                              capture_output=True, text=True, timeout=240)
        if done.returncode:
            raise AssertionError(done.stderr)
        return os.path.join(folder, "checkpoint-1.safetensors")

    def edit(self, change):
        """The voice with another header."""
        with open(self.voice, "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            header, data = json.loads(file.read(size)), file.read()
        header["__metadata__"]["format"] = "tandem checkpoint 1"  # which asks for no hash of its header
        change(header)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(self.path("edited.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
        return self.path("edited.safetensors")

    def refuse_text(self, words, *arguments, code=1, **more):
        out = self.path("a.wav")
        self.refuse(words, *arguments, "-o", out, code=code, **more)
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("a.wav")], [])

    def test_speaks(self):
        for name, options in (("a", ["--checkpoint", self.voice]), ("b", ["--checkpoint", self.follower, "--reference"])):
            if options[-1] == "--reference":
                write_wav(self.path("reference.wav"), make_tone(0.6))
                options.append(self.path("reference.wav"))
            self.synth(*options, "--text", "Now say a.", "-o", self.path(f"{name}.wav"))
            with wave.open(self.path(f"{name}.wav"), "rb") as file:
                self.assertGreater(file.getnframes(), 0)
                written = file.readframes(file.getnframes())
            done = self.synth(*options, "--text", "Now say a.", "-o", "-", "--json", text=False)
            self.assertEqual(done.stdout, written)
            told = json.loads(done.stderr[done.stderr.index(b"{"):])
            self.assertGreater(told["load_s"], 0)
            self.assertTrue(0 < told["first_audio_s"] <= told["work_s"])
        done = self.synth("--checkpoint", self.path("none"), "--text", "a", "-o", "-", "--json", code=1)
        self.assertEqual(done.stdout, "")
        self.assertIn("none", done.stderr)

    def test_another_architecture(self):
        def set_meta(key, value):
            return lambda header: header["__metadata__"].update({key: value})

        for words, change in (
                ("no checkpoint of this program", lambda header: header.pop("__metadata__")),
                ("'tandem checkpoint 9'", set_meta("format", "tandem checkpoint 9")),
                ("no 'model.text_layers'", lambda header: header["__metadata__"].pop("model.text_layers")),
                ("its family is 'diffusion'", set_meta("family", "diffusion")),
                ("another shape", set_meta("model.ff_factor", "3")),
                ("has no tensor", set_meta("model.text_layers", "9")),
                ("has no tensor param.text.embedding", lambda header: header.update(
                    {"param.text.other": header.pop("param.text.embedding")}))):
            with self.subTest(words=words):
                self.refuse_text(words, "--checkpoint", self.edit(change), "--text", "say a")

    def test_file_of_version_0_1(self):
        def make_old(header):
            meta = header["__metadata__"]
            self.assertEqual(meta.pop("family"), "parallel")
            meta.update({"model.decoder_strategy": "non_autoregressive", "model.reduction": "2"})

        for name, voice in (("new.wav", self.voice), ("old.wav", self.edit(make_old))):
            self.synth("--checkpoint", voice, "--text", "say a", "-o", self.path(name))
        with open(self.path("new.wav"), "rb") as new, open(self.path("old.wav"), "rb") as old:
            self.assertEqual(new.read(), old.read())

    def test_text_as_argument(self):
        self.synth("--checkpoint", self.voice, "--text", "say a", "-o", self.path("a.wav"))
        self.synth("--checkpoint", self.voice, "say a", "-o", self.path("b.wav"))
        self.assertEqual(self.read("a.wav"), self.read("b.wav"))

    def test_texts(self):
        self.refuse_text("'q' (U+0071)", "--checkpoint", self.voice, "--text", "say q now", "--strict-text")
        self.refuse_text("'\u6f22' (U+6F22)", "--checkpoint", self.voice, "--text", "say \u6f22 now",
                         "--strict-text")
        self.refuse_text("fp32 weights alone", "--checkpoint", self.voice, "--text", "say a", "--weights", "int8",
                         code=2)
        self.refuse_text("nothing to say", "--checkpoint", self.voice, "--text", "", code=2)
        self.refuse_text("nothing to say", "--checkpoint", self.voice, "--text", " \n ", code=2)
        self.refuse_text("nothing to say", "--checkpoint", self.voice, "-", code=2, input="")
        self.refuse_text("zero byte", "--checkpoint", self.voice, "-", input="say\0a")
        self.refuse_text("UTF-8", "--checkpoint", self.voice, "-", input="say \udcff", errors="surrogateescape")

    def test_long_text(self):
        length = 20000 // SHARE
        text = ("Say a now say b now. " * 1000)[:length]
        done = self.synth("--checkpoint", self.voice, "-", "-o", self.path("a.wav"), "--json", input=text)
        self.assertGreater(json.loads(done.stdout)["pieces"], length // 160)

    def test_references(self):
        short, silent = self.path("short.wav"), self.path("silent.wav")
        write_wav(short, make_tone(0.1))
        write_wav(silent, [0] * RATE)
        self.refuse_text("0.10 s of sound", "--checkpoint", self.follower, "--text", "say a", "--reference", short)
        self.refuse_text("silent", "--checkpoint", self.follower, "--text", "say a", "--reference", silent)
        self.refuse_text("--reference FILE", "--checkpoint", self.follower, "--text", "say a", code=2)
        self.refuse_text("reference:", "--checkpoint", self.voice, "--text", "say a", "--reference", silent, code=2)

    def test_unwritable(self):
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        for path in (self.path("missing/a.wav"), self.path("file/a.wav"), "/proc/a.wav"):
            self.refuse(path, "--checkpoint", self.path("none"), "--text", "say a", "-o", path, code=1)
        os.mkdir(self.path("a.wav"))
        self.refuse("a.wav", "--checkpoint", self.voice, "--text", "say a", "-o", self.path("a.wav"), code=1)
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, "synth", "--checkpoint", self.voice, "--text", "say a", "-o", "-", "--device",
                                   "cpu"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=240)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("stdout", done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = sys.argv.pop(1)
    unittest.main()
