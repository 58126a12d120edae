#!/usr/bin/env python3
"""`train` as users meet it: what it leaves behind, how it is ended and gone on with, what it refuses, the dump of a
step, and `inspect` of a checkpoint.

    python3 tests/cli/test_train.py /path/to/tandem

Needs only Python's standard library. Every test has a dataset of its own; devices keep their cache.
"""

import array
import json
import math
import os
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

from tones import make_dataset

PROGRAM = "./tandem"
N_ROWS = 12


def read_tensors(path):
    """Names to (dtype, shape, values) of a safetensors file, and its metadata."""
    with open(path, "rb") as file:
        content = file.read()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = array.array({"F32": "f", "U32": "I", "I32": "i"}[entry["dtype"]])
        values.frombytes(content[8 + size + begin:8 + size + end])
        tensors[name] = (entry["dtype"], entry["shape"], values)
    return tensors, header["__metadata__"]


class TrainTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-train-")
        self.addCleanup(self.folder.cleanup)
        self.root = os.path.join(self.folder.name, "set")
        self.run_dir = os.path.join(self.folder.name, "run")
        make_dataset(self.root, N_ROWS, 8000, 400)

    def command(self, *options):
        return [PROGRAM, "train", "--model-device", "cpu", "--train-data", self.root, "--checkpoint-dir", self.run_dir,
                "--model-size", "pico", "--batch-size", "2", "--language", "en", *options]

    def run_program(self, command, code=0):
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def train(self, *options, code=0):
        return self.run_program(self.command(*options), code)

    def test_run_and_its_files(self):
        done = self.train("--max-steps", "4", "--val-every", "2", "--sample-every", "4", "--save-every", "2",
                          "--log-every", "1", "--keep-checkpoints", "1", "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["step"] for line in lines if line["event"] == "step"], [1, 2, 3, 4])
        self.assertEqual([line["step"] for line in lines if line["event"] == "validation"], [2, 4])
        self.assertEqual((lines[0]["event"], lines[-1]["event"]), ("start", "end"))
        step = next(line for line in lines if line["event"] == "step")
        for key in ("loss", "loss.mel", "loss.prior", "loss.duration", "lr", "grad_norm", "ms_per_step"):
            self.assertTrue(math.isfinite(step[key]), key)
        names = os.listdir(self.run_dir)
        self.assertEqual([name for name in names if name.startswith("checkpoint-")], ["checkpoint-4.safetensors"])
        for name in ("config.ini", "best.safetensors", "latest", "metrics.jsonl", "samples"):
            self.assertIn(name, names)
        self.assertEqual(sum("tfevents" in name for name in names), 1)
        with open(os.path.join(self.run_dir, "latest"), encoding="utf-8") as file:
            self.assertEqual(file.read().strip(), "checkpoint-4.safetensors")
        with open(os.path.join(self.run_dir, "metrics.jsonl"), encoding="utf-8") as file:
            self.assertEqual([json.loads(line)["step"] for line in file], [line["step"] for line in lines])
        with open(os.path.join(self.run_dir, "config.ini"), encoding="utf-8") as file:
            config = file.read()
        self.assertRegex(config, r"(?m)^text_width *= *\d+")
        self.assertRegex(config, r"(?m)^batch_size *= *2")

    def test_a_steps_batches_count_as_one(self):
        """Batches of unlike lengths weigh what they hold, in frames or tokens as each loss counts: two of them make
        the losses and the gradient of one that holds both."""
        root = os.path.join(self.folder.name, "unlike")
        make_dataset(root, 4, 6000, 9000)
        with open(os.path.join(root, "metadata.csv"), "w", encoding="utf-8") as file:
            file.writelines(f"r{i:02}|{text}\n" for i, text in enumerate(("A.", "Say it now.", "Oh.", "What a day it is.")))
        quiet = [part for key in ("dropout", "input_noise", "frame_dropout", "prenet_dropout")
                 for part in ("--set", f"model.{key}=0")]
        for family in ("parallel", "autoregressive"):
            told = []
            for size, accum in ((4, 1), (2, 2), (1, 4)):
                done = self.train("--train-data", root, "--batch-size", str(size), "--grad-accum", str(accum),
                                  "--max-steps", "1", "--val-every", "0", "--sample-every", "0", "--json", "--set",
                                  f"model.family={family}", *quiet[:2 if family == "parallel" else 8],
                                  "--set", "data.val_fraction=0",
                                  "--checkpoint-dir", os.path.join(self.folder.name, f"{family}-{accum}"))
                told.append(next(e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "step"))
            names = [name for name in told[0] if name.startswith("loss")] + ["grad_norm"]
            self.assertGreater(len(names), 4)
            for name in names:
                for one in told[1:]:
                    self.assertLess(abs(one[name] - told[0][name]), 2e-4 * abs(told[0][name]) + 1e-6, (family, name))

    def test_its_config_gives_the_same_run(self):
        self.train("--max-steps", "2", "--val-every", "0", "--sample-every", "0")
        again = os.path.join(self.folder.name, "again")
        self.run_program([PROGRAM, "train", "--config", os.path.join(self.run_dir, "config.ini"), "--checkpoint-dir", again])
        files = [os.path.join(folder, "checkpoint-2.safetensors") for folder in (self.run_dir, again)]
        self.assertEqual(read_tensors(files[0])[0], read_tensors(files[1])[0])

    def test_signal_ends_with_a_checkpoint(self):
        command = self.command("--max-steps", "100000", "--val-every", "0", "--sample-every", "0", "--log-every", "1",
                               "--json")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while True:
                event = json.loads(process.stdout.readline())
                if event["event"] == "step" and event["step"] >= 3:
                    break
            second = self.train("--max-steps", "5", code=2)
            self.assertIn("another trainer", second.stderr)
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, errors)
        last = json.loads(rest.splitlines()[-1])
        self.assertEqual(last["event"], "end")
        self.assertIn(f"checkpoint-{last['step']}.safetensors", os.listdir(self.run_dir))
        done = self.train("--max-steps", str(last["step"] + 1), "--val-every", "0", "--sample-every", "0", "--log-every", "1")
        self.assertIn(f"going on from '{self.run_dir}/checkpoint-{last['step']}.safetensors'", done.stderr)
        with open(os.path.join(self.run_dir, "metrics.jsonl"), encoding="utf-8") as file:
            steps = [json.loads(line)["step"] for line in file if '"step"' in line and '"event": "step"' in line]
        self.assertEqual(steps, list(range(1, last["step"] + 2)))

    def test_dump_can_be_done_again(self):
        path = os.path.join(self.folder.name, "dump.safetensors")
        self.train("--dump-step", path, "--lr", "0.01", "--warmup-steps", "1", "--scheduler", "constant")
        tensors, metadata = read_tensors(path)
        names = [name[6:] for name in tensors if name.startswith("param.")]
        for name in ("token_ids", "token_counts", "frame_counts", "mel"):
            self.assertIn("batch." + name, tensors)
        terms = {name: tensors[name][2][0] for name in tensors if name.startswith("loss.")}
        self.assertAlmostEqual(terms["loss.total"], sum(v for k, v in terms.items() if k != "loss.total"), places=4)
        norm = math.sqrt(sum(g * g for name in names for g in tensors["grad." + name][2]))
        factor = min(1, float(metadata["train.grad_clip"]) / norm)
        lr, eps = float(metadata["train.lr"]), float(metadata["train.eps"])
        self.assertEqual(lr, 0.01)
        for name in ("text.embedding", "prior.bias", "decoder.out.bias"):  # no decay: w - lr g / (|g| + eps)
            for w, g, u in zip(*(tensors[kind + name][2] for kind in ("param.", "grad.", "updated."))):
                g *= factor
                self.assertAlmostEqual(u, w - lr * g / (abs(g) + eps), places=5, msg=name)
        told = {key[6:]: value for key, value in metadata.items() if key.startswith("train.")}
        self.assertEqual((told["step"], told["updates"], told["mel_loss"], told["loss_prior"]), ("0", "0", "l1", "1"))
        self.assertFalse(any(name.startswith("moment") for name in tensors))  # they are zero

    def test_dump_of_a_run_that_goes_on(self):
        """The moments it begins with are in the file, and its terms are weighted as it says."""
        path = os.path.join(self.folder.name, "dump.safetensors")
        options = ("--family", "autoregressive", "--val-every", "0", "--sample-every", "0", "--set",
                   "training.loss_mel=0.25", "--set", "training.supervision_start=7", "--lr", "0.01")
        self.train("--max-steps", "2", *options)
        kept, _ = read_tensors(os.path.join(self.run_dir, "checkpoint-2.safetensors"))
        self.train("--dump-step", path, *options)
        tensors, metadata = read_tensors(path)
        told = {key[6:]: value for key, value in metadata.items() if key.startswith("train.")}
        self.assertEqual((told["step"], told["updates"], told["supervision_start"]), ("2", "2", "7"))
        total = 0
        for name in [name[5:] for name in tensors if name.startswith("loss.") and name != "loss.total"]:
            factor = tensors.get(f"batch.{name}_weight", (None, None, [1]))[2][0]
            total += float(told["loss_" + name]) * factor * tensors["loss." + name][2][0]
        self.assertAlmostEqual(tensors["loss.total"][2][0], total, places=4)
        norm = math.sqrt(sum(g * g for name in tensors if name.startswith("grad.") for g in tensors[name][2]))
        factor = min(1, float(told["grad_clip"]) / norm)
        b1, b2, lr, eps = (float(told[key]) for key in ("beta1", "beta2", "lr", "eps"))
        for name in ("text.embedding", "decoder.stop.bias"):
            for block in ("param.", "moment1.", "moment2."):
                self.assertEqual(tensors[block + name][2], kept[block + name][2])
            kinds = ("param.", "moment1.", "moment2.", "grad.", "updated.")
            for w, m, v, g, u in zip(*(tensors[kind + name][2] for kind in kinds)):
                m, v = b1 * m + (1 - b1) * factor * g, b2 * v + (1 - b2) * (factor * g) ** 2
                step = lr * m / (1 - b1 ** 3) / (math.sqrt(v / (1 - b2 ** 3)) + eps)
                self.assertAlmostEqual(u, w - step, places=5, msg=name)

    def test_inspect_and_slim(self):
        self.train("--max-steps", "1", "--val-every", "0", "--sample-every", "0")
        path = os.path.join(self.run_dir, "checkpoint-1.safetensors")
        slim = os.path.join(self.folder.name, "slim.safetensors")
        shown = json.loads(self.run_program([PROGRAM, "inspect", path, "--json", "--slim", slim]).stdout)
        self.assertEqual((shown["kind"], shown["metadata"]["train.step"]), ("checkpoint", "1"))
        self.assertLess(os.path.getsize(path), 12 * shown["parameters"] + (1 << 20))
        tensors, metadata = read_tensors(slim)
        self.assertEqual(tensors.pop("header.hash")[:2], ("U32", [2]))
        self.assertTrue(all(name.startswith(("param.", "state.")) for name in tensors))
        self.assertFalse(any(key.startswith("train.") for key in metadata))
        self.assertEqual(sum(len(values) for _, _, values in tensors.values()), shown["parameters"])
        with open(slim, "r+b") as file:
            file.seek(-100, os.SEEK_END)
            byte = file.read(1)
            file.seek(-100, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))
        self.assertIn("is damaged: tensor param.", self.run_program([PROGRAM, "inspect", slim], code=1).stderr)

    def test_wrong_usage_is_refused(self):
        self.assertIn("when training ends", self.train(code=2).stderr)
        self.assertIn("--train-data", self.run_program([PROGRAM, "train", "--max-steps", "1"], code=2).stderr)
        self.assertIn("preset", self.train("--max-steps", "1", "--model-size", "huge", code=2).stderr.replace("one of", "preset"))
        self.assertIn("auto", self.train("--max-steps", "1", "--batch-size", "many", code=2).stderr)
        self.assertIn("text_width", self.train("--max-steps", "1", "--set", "model.text_width=7", code=2).stderr)
        self.assertIn("simulated", self.train("--max-steps", "1", "--model-device", "sim", code=2).stderr)
        self.train("--max-steps", "1", "--resume", os.path.join(self.folder.name, "none.safetensors"), code=1)
        both = ("--resume", "a.safetensors", "--init-from", "b.safetensors")
        self.assertIn("exclude", self.train("--max-steps", "1", *both, code=2).stderr)
        self.assertFalse(os.path.exists(os.path.join(self.run_dir, "latest")))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
