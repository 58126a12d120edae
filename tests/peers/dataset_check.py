#!/usr/bin/env python3
"""How many planted faults `tandem inspect` names in a dataset, and how many good rows it accuses.

    dataset_check.py PROGRAM [--rows 300] [--seeds 3] [--keep FOLDER]

The demo sentences spoken by espeak-ng, with 20 swapped texts, 10 clipped and 10 noisy recordings, 5 rows of another
language and 5 copies; a fault counts as named if a finding of its own kind is about its row. Fails below 90 % named or
above 2 % of the good rows accused.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
import planted as faults

COUNTS = {"swapped": 20, "clipped": 10, "noisy": 10, "foreign": 5, "copied": 5}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep")
    options = parser.parse_args()
    with open(os.path.join(HERE, "../../scripts/demo_sentences.txt"), encoding="utf-8") as file:
        sentences = file.read().splitlines()[:options.rows]
    is_good = True
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory(prefix="tandem-planted-") as folder:
            folder = os.path.join(options.keep, str(seed)) if options.keep else folder
            planted = faults.make(folder, sentences, COUNTS, seed)
            start = time.monotonic()
            done = subprocess.run([options.program, "inspect", folder, "--json", "--no-cache", "--quiet"], capture_output=True,
                                  text=True, check=True)
            document = json.loads(done.stdout)
            named, accused = faults.judge(planted, document)
            n_named = sum(n for n, _ in named.values())
            n_good = document["check"]["rows"] - len(planted)
            is_good &= n_named >= 0.9 * len(planted) and len(accused) <= 0.02 * n_good
            print(f"seed {seed}: {n_named} of {len(planted)} named " + str({k: f"{a}/{b}" for k, (a, b) in named.items()}) +
                  f"; {len(accused)} of {n_good} good rows accused {accused or ''}; {time.monotonic() - start:.1f} s", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
