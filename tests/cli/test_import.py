#!/usr/bin/env python3
"""`tandem import`, `tandem export` and what `tandem inspect` tells of a voice that was imported.

    python3 tests/cli/test_import.py /path/to/tandem

Needs only Python's standard library: the source is a model.safetensors with the tensors of tests/oracle/golden/
xtts_layout.txt, and hostile files are made with Python's own pickle and zipfile.
"""

import json
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

PROGRAM = "./tandem"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VOCAB = {"version": "1.0", "added_tokens": [{"id": 0, "content": "[STOP]", "special": True},
                                            {"id": 1, "content": "[UNK]", "special": True},
                                            {"id": 30, "content": "[START]", "special": True}],
         "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
         "model": {"type": "BPE", "unk_token": "[UNK]", "vocab": {"[STOP]": 0, "[UNK]": 1, "a": 2, "[START]": 30},
                   "merges": []}}


def read_layout():
    """Keys of the configuration, and shapes by name."""
    keys, shapes = {}, {}
    with open(os.path.join(ROOT, "tests/oracle/golden/xtts_layout.txt"), encoding="utf-8") as file:
        for line in file.read().splitlines():
            if " = " in line:
                key, value = line.split(" = ")
                keys[key] = int(value)
            else:
                name, *dims = line.split()
                shapes[name] = list(map(int, dims))
    return keys, shapes


def write_safetensors(path, shapes):
    """Whole numbers are int64, the others fp32; each element is its number, over 1024."""
    header, data = {}, b""
    for name, dims in sorted(shapes.items(), key=lambda pair: not pair[0].endswith("num_batches_tracked")):
        n = 1
        for dim in dims:
            n *= dim
        is_whole = name.endswith("num_batches_tracked")
        piece = struct.pack("<q", 9) if is_whole else struct.pack(f"<{n}f", *[(i % 2048) / 1024 for i in range(n)])
        header[name] = {"dtype": "I64" if is_whole else "F32", "shape": dims,
                        "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Command:
    """Runs a program where it is loaded."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


class ImportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-import-")
        cls.source = cls.path("source")
        os.mkdir(cls.source)
        keys, shapes = read_layout()
        cls.shapes = {name: dims for name, dims in shapes.items()}
        write_safetensors(cls.path("source", "model.safetensors"), cls.shapes)
        with open(cls.path("source", "vocab.json"), "w", encoding="utf-8") as file:
            json.dump(VOCAB, file)
        with open(cls.path("source", "config.json"), "w", encoding="utf-8") as file:
            json.dump({"model": "xtts", "languages": ["en", "de"], "max_audio_len": float("inf"),
                       "model_args": {k: keys[k] for k in keys if k.startswith("gpt_")}}, file)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder.name, *names)

    def run_program(self, *arguments, code=0):
        made = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(made.returncode, code, made.stderr)
        return made

    def import_voice(self):
        made = self.run_program("import", self.source, "-o", self.path("voice.safetensors"), "--json")
        return json.loads(made.stdout)

    def test_a_voice_that_asks_for_more_than_it_has(self):
        """Keys of a large model in a small file, and files cut off: named, at once, before room is made for them."""
        self.import_voice()
        with open(self.path("voice.safetensors"), "rb") as file:
            whole = file.read()
        length = struct.unpack("<Q", whole[:8])[0]
        header = json.loads(whole[8:8 + length])
        cases = [whole[:n] for n in (0, 7, 100, 8 + length // 2, 8 + length, len(whole) - 1)]
        for key, value in (("gpt_n_model_channels", 2048), ("gpt_number_text_tokens", 60000)):
            # in the format that has no hash over its header, so that anybody can write it
            told = {**header["__metadata__"], f"model.{key}": str(value), "format": "tandem checkpoint 1"}
            text = json.dumps({**header, "__metadata__": told}).encode()
            text += b" " * (-len(text) % 8)
            cases.append(struct.pack("<Q", len(text)) + text + whole[8 + length:])
        for case in cases:
            with open(self.path("hostile.safetensors"), "wb") as file:
                file.write(case)
            program = subprocess.Popen([PROGRAM, "synth", "--checkpoint", self.path("hostile.safetensors"), "--text", "a",
                                        "--reference", self.path("none.wav"), "-o", self.path("x.wav")],
                                       stderr=subprocess.PIPE, text=True)
            message = program.stderr.read()
            _, status, used = os.wait4(program.pid, 0)
            program.returncode = os.waitstatus_to_exitcode(status)
            program.stderr.close()
            self.assertIn(program.returncode, (1, 2), message)
            self.assertRegex(message, "hostile.safetensors|tensor gpt")
            self.assertLess(used.ru_utime + used.ru_stime, 1)
            self.assertLess(used.ru_maxrss / 1024, 200)

    def test_it_tells_what_it_found(self):
        told = self.import_voice()
        self.assertEqual(told["family"], "xtts")
        self.assertEqual(set(told["parts"]), {"gpt", "vocoder", "speaker_encoder", "dvae"})
        product = 1
        for dim in self.shapes["gpt.text_embedding.weight"]:
            product *= dim
        self.assertGreater(told["parts"]["gpt"], product)
        self.assertEqual(told["missing"], ["speakers_xtts.pth"])
        self.assertEqual(told["ignored"], [])
        plain = self.run_program("import", self.source, "-o", self.path("voice.safetensors")).stdout
        self.assertIn("missing        speakers_xtts.pth", plain)
        self.assertIn("CPML", plain)

    def test_inspect_shows_the_voice(self):
        told = self.import_voice()
        voice = json.loads(self.run_program("inspect", self.path("voice.safetensors"), "--json").stdout)
        self.assertEqual(voice["family"], "xtts")
        self.assertEqual({k: v for k, v in voice["parts"].items() if v > 0}, told["parts"])
        self.assertEqual(voice["metadata"]["languages"], "en\nde")
        self.assertIn("Coqui", voice["metadata"]["origin"])
        self.assertIn("non-commercial", voice["metadata"]["licence"])
        self.assertNotIn("tokenizer_json", voice["metadata"])
        names = {t["name"]: t["shape"] for t in voice["tensors"]}
        for name, dims in self.shapes.items():
            self.assertEqual(names[name], dims)

    def test_tokens_that_were_added_get_rows(self):
        """Old rows stay, new ones are small; without --grow the vocabulary is of another model."""
        grown = self.path("grown")
        os.mkdir(grown)
        rows, width = self.shapes["gpt.text_embedding.weight"]
        vocab = json.loads(json.dumps(VOCAB))
        vocab["model"]["vocab"].update({"\u00f0": rows, "[is]": rows + 1, "\u00fe": rows + 2})
        for name in ("model.safetensors", "config.json"):
            os.symlink(self.path("source", name), os.path.join(grown, name))
        with open(os.path.join(grown, "vocab.json"), "w", encoding="utf-8") as file:
            json.dump(vocab, file)
        voice = self.path("grown.safetensors")
        self.assertIn("--grow", self.run_program("import", grown, "-o", voice, code=1).stderr)
        told = json.loads(self.run_program("import", grown, "-o", voice, "--grow", "--json").stdout)
        self.assertEqual(told["new_tokens"], 3)
        with open(voice, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            start = file.tell()
            for name, each in (("gpt.text_embedding.weight", width), ("gpt.text_head.weight", width), ("gpt.text_head.bias", 1)):
                self.assertEqual(header[name]["shape"][0], rows + 3)
                file.seek(start + header[name]["data_offsets"][0])
                values = struct.unpack(f"<{(rows + 3) * each}f", file.read(4 * (rows + 3) * each))
                self.assertTrue(all(value == (i % 2048) / 1024 for i, value in enumerate(values[:rows * each])), name)
                new = values[rows * each:]
                self.assertLess(max(map(abs, new)), 0.2)
                self.assertEqual(len(set(new)) > 1, each > 1, name)
        self.run_program("export", voice, "-o", self.path("grown-out"))
        self.run_program("import", self.path("grown-out"), "-o", self.path("grown-again.safetensors"))

    def test_export_and_import_give_the_same_file(self):
        self.import_voice()
        self.run_program("export", self.path("voice.safetensors"), "-o", self.path("out"), "--format", "coqui")
        self.assertEqual(sorted(os.listdir(self.path("out"))),
                         ["config.json", "dvae.pth", "mel_stats.pth", "model.pth", "vocab.json"])
        with zipfile.ZipFile(self.path("out", "model.pth")) as archive:
            self.assertIsNone(archive.testzip())
            self.assertEqual(archive.read("model/version"), b"3\n")
        self.run_program("import", self.path("out"), "-o", self.path("again.safetensors"))
        with open(self.path("voice.safetensors"), "rb") as one, open(self.path("again.safetensors"), "rb") as two:
            self.assertEqual(one.read(), two.read())

    def test_a_hostile_file_runs_nothing(self):
        folder = self.path("hostile")
        os.makedirs(folder, exist_ok=True)
        with zipfile.ZipFile(os.path.join(folder, "model.pth"), "w") as archive:
            archive.writestr("model/data.pkl", pickle.dumps({"model": Command(f"touch {folder}/harmed")}, protocol=2))
        made = self.run_program("import", folder, "-o", self.path("harmed.safetensors"), code=1)
        self.assertRegex(made.stderr, r"model\.pth.*(posix|os)\.system")
        self.assertEqual(os.listdir(folder), ["model.pth"])
        self.assertFalse(os.path.exists(self.path("harmed.safetensors")))

    def test_what_is_missing_is_told(self):
        made = self.run_program("import", self.source, code=2)
        self.assertIn("-o", made.stderr)
        made = self.run_program("import", self.path("nothing"), "-o", self.path("x.safetensors"), code=1)
        self.assertIn("model.pth", made.stderr)
        self.import_voice()
        made = self.run_program("export", self.path("voice.safetensors"), code=2)
        self.assertIn("-o", made.stderr)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
