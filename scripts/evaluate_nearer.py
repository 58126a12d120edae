#!/usr/bin/env python3
"""Which of two speakers a voice is nearer to, by Resemblyzer: of each sentence that it speaks, likeness to either.

    evaluate_nearer.py VOICE HIS_DATA OTHER_DATA [--sentences N] [--synth 'OPTIONS'] [--json]

VOICE is a checkpoint; HIS_DATA and OTHER_DATA are LJSpeech folders. A speaker is the mean of the first 20 recordings.
Sentences are the new ones that evaluate_wer.sh speaks. Runs in the Python of the judges that scripts/evaluate.sh
installs (build/evaluate-judges/venv). TANDEM names the program if it is not build/release/tandem.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import numpy

from demo_grammar import known_sentences, make_new, read_patterns
from evaluate import read_sound
from evaluate_judges import Speakers

N_KNOWN = 20  # recordings by which a speaker is known


def know(speakers, folder):
    """The embeddings of a speaker's first recordings."""
    paths = sorted(pathlib.Path(folder, "wavs").glob("*.wav"))[:N_KNOWN]
    if not paths:
        sys.exit(f"evaluate_nearer: {folder}/wavs has no recordings")
    return [speakers.embed(read_sound(path)) for path in paths]


def speak(args, folder):
    """The new sentences, one file each."""
    tandem = os.environ.get("TANDEM") or str(pathlib.Path(__file__).resolve().parent.parent / "build/release/tandem")
    known = known_sentences()
    for number, sentence in enumerate(make_new(read_patterns(known), set(known), args.sentences)):
        path = os.path.join(folder, f"{number}.wav")
        done = subprocess.run([tandem, "synth", "--checkpoint", args.voice, "--text", sentence,
                               *shlex.split(args.synth), "-o", path], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"evaluate_nearer: {done.stderr.strip()}")
        yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("voice")
    parser.add_argument("his")
    parser.add_argument("other")
    parser.add_argument("--sentences", type=int, default=20)
    parser.add_argument("--synth", default="", help="more options of tandem synth")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    speakers = Speakers()
    his, other = know(speakers, args.his), know(speakers, args.other)
    with tempfile.TemporaryDirectory(prefix="tandem-nearer-") as folder:
        heard = [speakers.embed(read_sound(path)) for path in speak(args, folder)]
    to_his = [speakers.compare(x, his) for x in heard]
    to_other = [speakers.compare(x, other) for x in heard]
    nearer = sum(a > b for a, b in zip(to_his, to_other))
    if args.json:
        print(json.dumps({"nearer": nearer, "sentences": len(heard), "to_his": to_his, "to_other": to_other}))
    else:
        print(f"nearer to {args.his} in {nearer} of {len(heard)}: {numpy.mean(to_his):.3f} on average, "
              f"{numpy.mean(to_other):.3f} to {args.other}")


if __name__ == "__main__":
    main()
