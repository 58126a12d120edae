#!/usr/bin/env python3
"""Speaks sentences with many voices of espeak-ng, for the training of an aligner (scripts/make_aligner.sh).

    make_aligner_data.py OUT_DIR [--count N] [--seed N]

Sentences are the prose of this project's own documentation and the demo sentences; each is spoken by another voice, at
another speed and pitch. OUT_DIR becomes a dataset in LJSpeech's layout. The same version of espeak-ng always makes the
same files."""

import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Variants that sound like a person; "" is the voice itself.
VARIANTS = ["", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f3", "f4", "f5", "adam", "Alex", "Alicia",
            "Andrea", "Andy", "Annie", "antonio", "belinda", "benjamin", "boris", "caleb", "david", "Denis", "Diogo", "ed",
            "edward", "Gene", "Henrique", "Hugo", "iven", "john", "Lee", "linda", "Marco", "Mario", "max", "Michael",
            "michel", "miguel", "Mike", "pablo", "paul", "pedro", "quincy", "rob", "robert", "steph", "steph2", "zac",
            "anika", "klatt", "klatt2", "klatt3", "grandpa"]
VOICES = ["en-us", "en-us", "en-us", "en-gb"]  # whose phonemes are those of the tokens, or nearly


def find_prose():
    """Sentences of plain words."""
    sentences = []
    for page in sorted(ROOT.glob("docs/*.md")) + sorted(ROOT.glob("*.md")):
        text = re.sub(r"```.*?```", "\n\n", page.read_text(encoding="utf-8"), flags=re.S)
        for paragraph in re.split(r"\n\s*\n|\n[-#|>]", text):
            for sentence in re.split(r"(?<=[.;:?!])\s+", " ".join(paragraph.split())):
                plain = re.fullmatch(r"[A-Za-z][A-Za-z ,'-]+[.;:?!]?", sentence)
                if plain and 25 <= len(sentence) <= 130:
                    sentences.append(sentence.rstrip(";:.") + ".")
    return sorted(set(sentences))


def speak(job):
    path, voice, speed, pitch, loudness, sentence = job
    subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "-a", str(loudness), "-w", path, "--",
                    sentence], check=True, stdin=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description="Speaks sentences with many voices of espeak-ng")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=2400, help="recordings")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    prose = find_prose()
    demo = (ROOT / "scripts/demo_sentences.txt").read_text(encoding="utf-8").splitlines()
    if not prose:
        sys.exit("make_aligner_data: the documentation has no sentences; is this a whole copy of the project?")
    (options.out / "wavs").mkdir(parents=True, exist_ok=True)
    jobs, rows = [], []
    for n in range(options.count):
        sentence = draw.choice(demo) if n % 8 == 7 else prose[draw.randrange(len(prose))]
        variant = draw.choice(VARIANTS)
        voice = draw.choice(VOICES) + ("+" + variant if variant else "")
        name = f"a{n:05d}"
        jobs.append((str(options.out / "wavs" / (name + ".wav")), voice, draw.randint(120, 230), draw.randint(20, 80),
                     draw.randint(60, 120), sentence))
        rows.append(f"{name}|{sentence}|{sentence}\n")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(speak, jobs))
    # Last, so that a folder that has it is complete.
    (options.out / "metadata.csv").write_text("".join(rows), encoding="utf-8")
    print(f"make_aligner_data: {len(rows)} recordings of {len(prose) + len(demo)} sentences in {options.out}",
          file=sys.stderr)


if __name__ == "__main__":
    main()
