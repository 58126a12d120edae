#!/usr/bin/env python3
"""Sentences enough for hours of reading, each another: the beginning of one demo sentence and the end of another.

    long_text.py COUNT [--seed N] > FILE

`scripts/make_demo_data.sh DIR --sentences FILE` speaks them, `cut.py` joins them (docs/recordings.md)."""

import argparse
import pathlib
import random

SENTENCES = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts/demo_sentences.txt"


def main():
    parser = argparse.ArgumentParser(description="Sentences enough for hours of reading, each another")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    words = [line.split() for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    draw = random.Random(options.seed)
    made = {}
    while len(made) < options.count:
        first, last = draw.choice(words), draw.choice(words)
        made[" ".join(first[:len(first) // 2 + 1] + last[len(last) // 2:])] = None
    print("\n".join(made))


if __name__ == "__main__":
    main()
