#!/usr/bin/env python3
"""How many planted faults `tandem inspect` names in a dataset, and how many good rows it accuses.

    dataset_check.py PROGRAM [--rows 300] [--seeds 3] [--keep FOLDER] [--dataset DIR [--swapped 20]] [-- MORE]

The demo sentences spoken by espeak-ng, with 20 swapped texts, 10 clipped and 10 noisy recordings, 5 rows of another
language and 5 copies; a fault counts as named if a finding of its own kind is about its row. With --dataset the rows of
that one, whose recordings are as they are, with 20 swapped texts, and only findings about texts accuse. Fails below
90 % named or above 2 % of the good rows accused. Words behind -- go to `tandem inspect`.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
import planted as faults

COUNTS = {"swapped": 20, "clipped": 10, "noisy": 10, "foreign": 5, "copied": 5}


def swap(folder, dataset, count, seed):
    """The dataset with texts swapped, as {row id: "swapped"}. Rows with a text that is there twice are left alone."""
    lines = [line.split("|") for line in (dataset / "metadata.csv").read_text(encoding="utf-8").splitlines()]
    texts = [cells[1:] for cells in lines]
    free = [i for i, text in enumerate(texts) if texts.count(text) == 1]
    random.Random(seed).shuffle(free)
    for a, b in zip(free[:count:2], free[1:count:2]):
        texts[a], texts[b] = texts[b], texts[a]
    os.symlink(dataset.resolve() / "wavs", os.path.join(folder, "wavs"))
    with open(os.path.join(folder, "metadata.csv"), "w", encoding="utf-8") as file:
        file.writelines("|".join([cells[0], *text]) + "\n" for cells, text in zip(lines, texts))
    return {lines[i][0]: "swapped" for i in free[:count // 2 * 2]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep")
    parser.add_argument("--dataset", type=pathlib.Path)
    parser.add_argument("--swapped", type=int, default=20)
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:at])
    with open(os.path.join(HERE, "../../scripts/demo_sentences.txt"), encoding="utf-8") as file:
        sentences = file.read().splitlines()[:options.rows]
    is_good = True
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory(prefix="tandem-planted-") as folder:
            folder = os.path.join(options.keep, str(seed)) if options.keep else folder
            if options.dataset:
                os.makedirs(folder, exist_ok=True)
                planted = swap(folder, options.dataset, options.swapped, seed)
            else:
                planted = faults.make(folder, sentences, COUNTS, seed)
            start = time.monotonic()
            done = subprocess.run([options.program, "inspect", folder, "--json", "--no-cache", "--quiet", *sys.argv[at + 1:]],
                                  capture_output=True, text=True, check=True)
            document = json.loads(done.stdout)
            named, accused = faults.judge(planted, document)
            if options.dataset:
                accused = {name: checks for name, checks in accused.items() if "text" in checks}
            n_named = sum(n for n, _ in named.values())
            n_good = document["check"]["rows"] - len(planted)
            is_good &= n_named >= 0.9 * len(planted) and len(accused) <= 0.02 * n_good
            print(f"seed {seed}: {n_named} of {len(planted)} named " + str({k: f"{a}/{b}" for k, (a, b) in named.items()}) +
                  f"; {len(accused)} of {n_good} good rows accused {accused or ''}; {time.monotonic() - start:.1f} s", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
