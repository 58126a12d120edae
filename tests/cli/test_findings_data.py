#!/usr/bin/env python3
"""What users met with their own datasets: folders of other programs, validation rows that also train, data that changed
between two sessions of a run. Each test is named by its finding.

    python3 tests/cli/test_findings_data.py /path/to/tandem

Needs only Python's standard library. Every test has datasets, a cache and a run of its own.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from tones import make_dataset, make_tone, write_wav

PROGRAM = "./tandem"
WORDS = "one two three four five six seven eight nine ten".split()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def record(path, index=0):
    """A tone, whatever the ending says: the content tells libsndfile what it is."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_wav(path, make_tone(index, 6000 + 100 * index))


def say(i):
    return f"Say {WORDS[i % 10]} now, {WORDS[i // 10 % 10]}."


# Each makes rows 0 ... n - 1 in `root`, and names a file to break and what is then said of it.

def make_ljspeech(root, n):
    write(f"{root}/metadata.csv", "".join(f"a{i}|{say(i)}|{say(i)}\n" for i in range(n)))
    for i in range(n):
        record(f"{root}/wavs/a{i}.{('wav', 'FLAC', 'Ogg')[i % 3]}", i)


def make_coqui(root, n):
    write(f"{root}/metadata.csv", "audio_file|text|speaker_name\n" +
          "".join(f"wavs/a{i}.wav|{say(i)}|{'xy'[i % 2]}\n" for i in range(n)))
    for i in range(n):
        record(f"{root}/wavs/a{i}.wav", i)


def make_piper(root, n):
    write(f"{root}/metadata.csv", "".join(f"a{i}|{'xy'[i % 2]}|{say(i)}\n" for i in range(n)))
    for i in range(n):
        record(f"{root}/wav/a{i}.wav", i)


def make_common_voice(root, n, table="train", first=0):
    write(f"{root}/{table}.tsv", "client_id\tpath\tsentence_id\tsentence\tup_votes\tlocale\tsegment\n" +
          "".join(f"{'xy'[i % 2] * 40}\tcv_en_{first + i}.mp3\tq\t{say(first + i)}\t2\ten\t\n" for i in range(n)))
    for i in range(first, first + n):
        record(f"{root}/clips/cv_en_{i}.mp3", i)


def make_vctk(root, n, mic="_mic1", folder="wav48_silence_trimmed", ending="flac"):
    for i in range(n):
        name = f"p{225 + i % 2}/p{225 + i % 2}_{i:03}"
        write(f"{root}/txt/{name}.txt", say(i) + "\n")
        record(f"{root}/{folder}/{name}{mic}.{ending}", i)
        if mic:
            record(f"{root}/{folder}/{name}_mic2.{ending}", i + 30)
    write(f"{root}/speaker-info.txt", "ID  AGE\n")


def make_libritts(root, n, subset="train-clean-100", first=0, speakers=(14, 16)):
    for i in range(first, first + n):
        speaker = speakers[i % 2]
        stem = f"{root}/{subset}/{speaker}/208/{speaker}_208_{i:06}_000000"
        write(stem + ".normalized.txt", say(i))
        write(stem + ".original.txt", say(i).upper() * 3)
        record(stem + ".wav", i)


LAYOUTS = {
    "ljspeech": (make_ljspeech, [""], "metadata.csv", "metadata.csv:2: "),
    "coqui": (make_coqui, ["x", "y"], "metadata.csv", "metadata.csv:3: "),
    "piper": (make_piper, ["x", "y"], "metadata.csv", "metadata.csv:2: "),
    "common_voice": (make_common_voice, ["x" * 40, "y" * 40], "train.tsv", "train.tsv:3: "),
    "vctk": (make_vctk, ["p225", "p226"], "txt/p226/p226_001.txt", "txt/p226/p226_001.txt:1: "),
    "libritts": (make_libritts, ["14", "16"], "train-clean-100/16/208/16_208_000001_000000.normalized.txt",
                 "train-clean-100/16/208/16_208_000001_000000.normalized.txt:1: "),
}


def drop_tensor(path, name):
    """The checkpoint as a version without this tensor, and without a hash of the header, wrote it."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, body = json.loads(file.read(size)), file.read()
    kept, at = b"", {}
    for key, tensor in header.items():
        if key not in ("__metadata__", "header.hash", name):
            first, end = tensor["data_offsets"]
            at[key] = dict(tensor, data_offsets=[len(kept), len(kept) + end - first])
            kept += body[first:end]
    at["__metadata__"] = dict(header["__metadata__"], format="tandem checkpoint 1")
    text = json.dumps(at).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + kept)


class DataTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-data-")
        self.addCleanup(self.folder.cleanup)
        self.root = self.path("set")

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def run_program(self, *arguments, code=0):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def prepare(self, path, *options, code=0):
        return self.run_program("prepare", "--train-data", path, "--language", "en", "--cache-dir", self.path("cache"),
                                *options, code=code)

    def look(self, path, *options):
        done = self.prepare(path, "--json", *options)
        return json.loads(done.stdout), done.stderr

    def train(self, *options, data=None, run="run", steps=1, code=0, language="en"):
        return self.run_program("train", "--model-device", "cpu", "--train-data", data or self.root, "--checkpoint-dir",
                                self.path(run), "--model-size", "pico", "--batch-size", "2", "--language", language,
                                "--max-steps", str(steps), "--sample-every", "0", "--val-every", "0", "--mel-cache", "none",
                                "--cache-dir", self.path("cache"), *options, code=code)

    # ---------------------------------------------------------------- 10: layouts

    def test_finding_10_each_layout_is_recognised_and_loads(self):
        for name, (make, speakers, _, _) in LAYOUTS.items():
            with self.subTest(name):
                root = self.path(name)
                make(root, 10)
                told, log = self.look(root, "--val-fraction", "0")
                self.assertEqual((told["train"]["layout"], told["train"]["layout_recognised"]), (name, True))
                self.assertEqual((told["train"]["train"], told["train"]["bad"]), (10, 0))
                self.assertEqual(sorted(told["train"]["speakers"]), speakers)
                self.assertEqual(log.count(f"recognised as layout {name}"), 1, log)
                forced, log = self.look(root, "--val-fraction", "0", "--layout", name)
                self.assertEqual(forced["train"]["train"], 10)
                self.assertFalse(forced["train"]["layout_recognised"])
                self.assertNotIn("recognised", log)

    def test_finding_10_a_broken_row_is_named_with_file_and_line(self):
        for name, (make, _, broken, place) in LAYOUTS.items():
            with self.subTest(name):
                root = self.path(name)
                make(root, 10)
                with open(os.path.join(root, broken), encoding="utf-8") as file:
                    text = file.read()
                write(os.path.join(root, broken), text.replace(say(1), ""))
                done = self.prepare(root, "--max-bad-fraction", "0", code=1)
                self.assertIn(f"the first is {root}/{place}", done.stderr)
                self.assertIn("has no text", done.stderr)
                told, _ = self.look(root, "--max-bad-fraction", "0.2")
                bad = told["train"]["bad_rows"][0]
                self.assertEqual(f"{bad['file']}:{bad['line']}: ", f"{root}/{place}")

    def test_finding_10_a_missing_recording_is_named_where_the_layout_has_it(self):
        make_vctk(self.root, 10, mic="", folder="wav48", ending="wav")
        os.remove(f"{self.root}/wav48/p225/p225_004.wav")
        done = self.prepare(self.root, "--max-bad-fraction", "0", code=1)
        self.assertIn("txt/p225/p225_004.txt:1: wav48/p225/p225_004.wav is not there", done.stderr)

    def test_finding_10_tables_of_commas_and_tabs_by_their_header(self):
        make_ljspeech(self.root, 6)
        rows = ['a0,"Say one, ""two""."', "a1,plain", "a2,more", 'a3,"open', "a4,x,y", "a5,last"]
        write(f"{self.root}/table.csv", "file,transcript\n" + "\n".join(rows) + "\n")
        told, _ = self.look(f"{self.root}/table.csv", "--max-bad-fraction", "0.5", "--val-fraction", "0")
        self.assertEqual((told["train"]["rows"], told["train"]["bad"]), (4, 2))
        self.assertTrue({",", ".", "w"} <= set(told["train"]["symbols"]), told["train"]["symbols"])
        messages = [row["message"] for row in told["train"]["bad_rows"]]
        self.assertIn("double quote does not close", messages[0])
        self.assertIn("too many columns, where the header has 2", messages[1])
        write(f"{self.root}/table.tsv", "speaker\tid\ttext\r\n\ta0\tone, two|three\r\nx\ta1\tfour\r\n")
        told, _ = self.look(f"{self.root}/table.tsv", "--val-fraction", "0")
        self.assertEqual(told["train"]["speakers"], {"": 1, "x": 1})
        self.assertEqual(told["train"]["metadata"], f"{self.root}/table.tsv")

    def test_finding_10_what_is_no_dataset_is_refused_with_what_one_is(self):
        os.makedirs(self.root)
        self.assertIn("has no metadata.csv and nothing of another known layout", self.prepare(self.root, code=1).stderr)
        self.assertIn("has no txt; layout vctk is: txt/SPEAKER", self.prepare(self.root, "--layout", "vctk", code=1).stderr)
        self.assertIn("did you mean 'libritts'", self.prepare(self.root, "--layout", "libritt", code=2).stderr)
        make_vctk(self.root, 2)
        self.assertIn("--columns is of tables", self.prepare(self.root, "--columns", "id|text", code=2).stderr)

    def test_finding_10_training_runs_on_another_layout(self):
        make_vctk(self.root, 10)
        done = self.train("--json")
        self.assertEqual(json.loads(done.stdout.splitlines()[0])["layout"], "vctk")
        self.assertEqual(done.stderr.count("recognised as layout vctk"), 1)

    # ---------------------------------------------------------------- 1: splits

    def test_finding_01_splits_of_a_layout_are_honoured(self):
        make_common_voice(self.path("cv"), 10)
        make_common_voice(self.path("cv"), 4, "dev", 20)
        told, _ = self.look(self.path("cv"))
        self.assertEqual((told["train"]["train"], told["train"]["val"], told["val"]["train"]), (10, 0, 4))
        self.assertEqual(told["val"]["metadata"], self.path("cv", "dev.tsv"))
        make_libritts(self.path("libri"), 10)
        make_libritts(self.path("libri"), 4, "dev-clean", 20, (84, 174))
        told, _ = self.look(self.path("libri"))
        self.assertEqual((told["train"]["train"], told["val"]["train"]), (10, 4))
        self.assertIn("174", told["val"]["speakers"])
        told, _ = self.look(self.path("libri", "train-clean-100"), "--val-data", self.path("libri", "dev-clean"))
        self.assertEqual((told["train"]["train"], told["val"]["train"]), (10, 4))

    def test_finding_01_speakers_that_do_not_train_do_not_validate(self):
        make_libritts(self.root, 10)
        make_libritts(self.root, 4, "dev-clean", 20, (84, 16))
        done = self.train("--val-every", "1")
        self.assertRegex(done.stderr, r"2 rows do not validate, since their speakers do not train; the first is "
                         r".*/dev-clean/84/208/84_208_000020_000000.normalized.txt:1: '84'")
        self.assertIn("2 rows of", done.stderr)

    def test_finding_01_a_copied_row_that_validates_is_refused(self):
        make_ljspeech(self.root, 8)
        other = self.path("other")
        write(f"{other}/metadata.csv", f"b0|{say(70)}\na3|{say(3)}\n")
        for name in ("b0", "a3"):
            record(f"{other}/wavs/{name}.wav", 3)
        done = self.prepare(self.root, "--val-data", other, code=2)
        self.assertIn("other/metadata.csv:2: 'a3' validates, but is a training row too", done.stderr)
        self.assertIn("set/metadata.csv:4); take it out of one of the tables", done.stderr)
        write(f"{other}/metadata.csv", f"b0|{say(70)}\na3|{say(80)}\n")
        self.prepare(self.root, "--val-data", other)
        write(f"{other}/metadata.csv", f"b0|{say(70)}\na3|{say(3)}\n")
        record(f"{other}/wavs/a3.wav", 4)  # somebody else reads the same sentence
        self.prepare(self.root, "--val-data", other)

    # ---------------------------------------------------------------- 3: data that changed

    def change(self, old, new):
        with open(f"{self.root}/metadata.csv", encoding="utf-8") as file:
            text = file.read()
        self.assertIn(old, text)
        write(f"{self.root}/metadata.csv", text.replace(old, new, 1))

    def test_finding_03_changed_data_is_refused_with_counts(self):
        make_dataset(self.root, 8)
        self.train()
        self.change("r02|Say c now.", "r02|Šay ž now.")
        done = self.train(steps=2, code=2)
        self.assertIn("was trained with other data: 0 rows were added, 0 removed, 1 changed, the first of them 'r02'",
                      done.stderr)
        self.assertIn("set/metadata.csv:3)", done.stderr)
        self.assertIn("--init-from", done.stderr)
        self.assertIn("--reset-training", done.stderr)
        self.change("r05|Say f now.\n", "")
        self.assertIn("0 rows were added, 1 removed, 1 changed", self.train(steps=2, code=2).stderr)
        self.change("r04", "r05")
        self.assertIn("0 rows were added, 1 removed, 2 changed", self.train(steps=2, code=2).stderr)
        self.train("--reset-training", steps=1)

    def test_finding_03_new_rows_are_refused_and_enter_by_init_from(self):
        make_dataset(self.root, 8)
        self.train()
        record(f"{self.root}/wavs/new.wav", 3)
        with open(f"{self.root}/metadata.csv", "a", encoding="utf-8") as file:
            file.write("new|Zürich, ñandú.\n")
        done = self.train(steps=2, code=2)
        self.assertIn("1 rows were added, 0 removed, 0 changed, the first of them 'new'", done.stderr)
        voice = self.path("run", "checkpoint-1.safetensors")
        self.train("--init-from", voice, run="next", steps=2)

        def symbols(path):
            return json.loads(self.run_program("inspect", path, "--json").stdout)["metadata"]["symbols"]
        added = set(symbols(self.path("next", "checkpoint-2.safetensors")))
        self.assertTrue(added >= set("üñú") | set(symbols(voice)), added)

    def test_finding_03_another_language_or_dataset_is_refused(self):
        make_dataset(self.root, 8)
        self.train(language="de")
        done = self.train(steps=2, code=2)
        self.assertIn("its language is de, here it is en", done.stderr)
        make_ljspeech(self.path("other"), 9)
        done = self.train(steps=2, data=self.path("other"), language="de", code=2)
        self.assertIn("9 rows were added, 8 removed, 0 changed", done.stderr)

    def test_finding_03_a_moved_folder_goes_on(self):
        make_dataset(self.root, 8)
        self.train()
        shutil.move(self.root, self.path("moved"))
        for folder, _, names in os.walk(self.path("moved")):
            for name in names:
                os.utime(os.path.join(folder, name), (1, 1))
        done = self.train(steps=2, data=self.path("moved"))
        self.assertNotIn("warning", done.stderr)
        self.assertIn("going on from", done.stderr)

    def test_finding_03_older_checkpoints_go_on(self):
        make_dataset(self.root, 8)
        self.train()
        drop_tensor(self.path("run", "checkpoint-1.safetensors"), "data.rows")
        self.change("r02|Say c now.", "r02|Say d now.")
        done = self.train(steps=2)
        self.assertIn("going on from", done.stderr)
        self.assertIn("other rows train than when the checkpoint was written: the epoch starts over", done.stderr)
        self.change("r02|Say d now.", "r02|Say e now.")  # from here on it is known
        self.assertIn("1 changed", self.train(steps=3, code=2).stderr)

    def test_finding_03_rows_that_change_sides_are_told(self):
        make_dataset(self.root, 8)
        self.train("--val-fraction", "0.3")
        done = self.train("--val-fraction", "0.5", steps=2)
        self.assertIn("2 rows have changed sides between training and validation", done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
