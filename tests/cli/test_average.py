#!/usr/bin/env python3
"""`tandem average`: the mean of fine-tunings, bit by bit; that it speaks; and what is refused.

    python3 tests/cli/test_average.py /path/to/tandem

Needs only Python's standard library.
"""

import array
import json
import os
import subprocess
import sys
import tempfile
import unittest

from tones import make_dataset

PROGRAM = "./tandem"


def read_tensors(path):
    """Numbers of 32 bits by their names."""
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    tensors = {}
    for name, tensor in header.items():
        if name != "__metadata__" and tensor["dtype"] == "F32":
            first, end = (begin + offset for offset in tensor["data_offsets"])
            tensors[name] = array.array("f", data[first:end])
    return tensors


def spoken(path):
    """What a voice speaks with: averages where it has them."""
    tensors = read_tensors(path)
    return {name: tensors.get(name.replace("param.", "average."), values)
            for name, values in tensors.items() if name.startswith("param.")}


class AverageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-average-")
        cls.addClassCleanup(cls.folder.cleanup)
        make_dataset(cls.path("set"))
        cls.start = cls.train("start", "1")
        more = ("--init-from", cls.start, "--average-decay", "0.5", "--lr", "0.01", "--warmup-steps", "0")
        cls.tuned = [cls.train(f"tuned{seed}", "2", *more, "--seed", str(seed)) for seed in (1, 2)]
        cls.tuned.append(cls.train("tuned3", "2", *more[:2], "--seed", "3"))  # without averages

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def run_program(cls, *arguments, code=0):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=240)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    @classmethod
    def train(cls, name, steps, *more):
        cls.run_program("train", "--model-device", "cpu", "--train-data", cls.path("set"), "--checkpoint-dir",
                        cls.path(name), "--family", "parallel", "--model-size", "pico", "--batch-size", "2",
                        "--max-steps", steps, *more)
        return os.path.join(cls.path(name), f"checkpoint-{steps}.safetensors")

    def test_the_mean(self):
        out = self.path("mean.safetensors")
        self.run_program("average", *self.tuned, "-o", out)
        made, parts = read_tensors(out), [spoken(path) for path in self.tuned]
        self.assertEqual(set(made) - set(parts[0]), set())
        for name, values in parts[0].items():
            wanted = array.array("f", (sum(same) / 3 for same in zip(values, parts[1][name], parts[2][name])))
            self.assertEqual(made[name], wanted, name)
        self.assertNotEqual(parts[0], parts[1])
        self.run_program("synth", "--checkpoint", out, "--device", "cpu", "--text", "Say a now.",
                         "-o", self.path("a.wav"))

    def test_a_voice_with_itself(self):
        out = self.path("same.safetensors")
        told = json.loads(self.run_program("average", self.tuned[0], self.tuned[0], "-o", out, "--json").stdout)
        self.assertEqual((told["output"], told["voices"]), (out, 2))
        self.assertEqual({k: v for k, v in read_tensors(out).items() if k.startswith("param.")},
                         spoken(self.tuned[0]))

    def test_what_is_refused(self):
        out = self.path("x.safetensors")
        other = self.train("other", "1", "--set", "model.decoder_layers=1")
        for words, arguments in (("differ in decoder_layers", (self.start, other, "-o", out)),
                                 ("no file", (self.start, self.start)),
                                 ("cannot open", (self.start, self.path("none.safetensors"), "-o", out))):
            self.assertIn(words, self.run_program("average", *arguments, code=1 if words == "cannot open" else 2).stderr)
        damaged = self.path("damaged.safetensors")
        with open(self.tuned[0], "rb") as file:
            data = bytearray(file.read())
        header = 8 + int.from_bytes(data[:8], "little")
        of = json.loads(data[8:header])["average.decoder.out.weight"]["data_offsets"][0]
        data[header + of] ^= 1
        with open(damaged, "wb") as file:
            file.write(data)
        self.assertIn("decoder.out.weight", self.run_program("average", self.tuned[1], damaged, "-o", out, code=1).stderr)
        self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
