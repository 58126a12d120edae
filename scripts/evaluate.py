"""The work of evaluate.sh: speaks held-out sentences in every way there is and lets judges hear them.

Every sound is handled alike before it is judged: one channel, 16 kHz, near silence at both ends cut to a tenth of a
second, speech brought to one level. What is judged is what the page plays.
"""

import argparse
import csv
import json
import math
import os
import random
import shlex
import subprocess
import sys
import tempfile

import numpy
import soundfile
import soxr

from evaluate_judges import HOP, RATE, Dnsmos, Speakers, compare_prosody, hear
from evaluate_page import write_page
from word_errors import count_errors, draw_error_rates, find_interval, words_of

LEVEL = 10 ** (-26 / 20)  # root of the mean square of speech, of full scale
EDGE = RATE // 10


def fail(text):
    sys.exit(f"evaluate: {text}")


# ---------------------------------------------------------------- sentences

def read_table(path):
    with open(path, encoding="utf-8", newline="") as lines:
        for row in csv.reader(lines, delimiter="|", quoting=csv.QUOTE_NONE):
            if len(row) > 1 and row[0] != "id":
                yield row[0], row[1]


def choose_rows(args):
    """Pairs of an id and a text."""
    for name in ("held_out.csv", "metadata_eval.csv", "metadata.csv"):
        path = os.path.join(args.data, name)
        if os.path.exists(path):
            break
    else:
        fail(f"{args.data} has no held_out.csv, metadata_eval.csv or metadata.csv; is it a dataset?")
    rows = list(read_table(path))
    if name == "metadata.csv":
        print("evaluate: no sentences are held out; the voices may have learnt from these", file=sys.stderr)
    if not rows:
        fail(f"{path} has no rows `id|text`")
    if args.sentences < len(rows):
        rows = sorted(random.Random(args.seed).sample(rows, args.sentences))
    return rows


# ---------------------------------------------------------------- sounds

def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        fail(f"{' '.join(command)} failed:\n{done.stderr.strip()}")


def read_sound(path):
    """As judges hear it."""
    if not os.path.exists(path):
        fail(f"{path} is not there")
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    samples = soxr.resample(samples.mean(axis=1), rate, RATE)
    frames = numpy.sqrt(numpy.mean(numpy.square(samples[:len(samples) // HOP * HOP].reshape(-1, HOP)), axis=1) + 1e-12)
    heard = numpy.flatnonzero(frames > frames.max() * 10 ** (-40 / 20)) if len(frames) else []
    if len(heard) == 0 or frames.max() < 1e-5:
        return numpy.zeros(RATE, numpy.float32)
    samples = samples[max(0, heard[0] * HOP - EDGE):(heard[-1] + 1) * HOP + EDGE]
    loud = frames[frames > frames.max() * 10 ** (-30 / 20)]
    return numpy.clip(samples * (LEVEL / math.sqrt(numpy.mean(loud ** 2))), -1, 1).astype(numpy.float32)


def speak(args, work, voice, rows):
    """Paths of what a voice makes of the sentences."""
    if os.path.isdir(voice):
        return [os.path.join(voice, row_id + ".wav") for row_id, _ in rows]
    folder, listing = os.path.join(work, "voice"), os.path.join(work, "sentences.txt")
    os.makedirs(folder, exist_ok=True)
    with open(listing, "w", encoding="utf-8") as out:
        out.writelines(text + "\n" for _, text in rows)
    run(args.tandem, "synth", "--checkpoint", voice, "--text-file", listing, "-o", folder + "/", *args.synth)
    return [os.path.join(folder, f"{i:03}.wav") for i in range(1, len(rows) + 1)]


def make_columns(args, rows):
    """The sounds of every way to speak: of each name a list with one for each row."""
    originals = [os.path.join(args.data, "wavs", row_id + ".wav") for row_id, _ in rows]
    columns = {"original": [read_sound(path) for path in originals]}
    with tempfile.TemporaryDirectory(prefix="tandem-evaluate-") as work:
        copies = []
        for (row_id, _), path in zip(rows, originals):
            copies.append(os.path.join(work, row_id + ".wav"))
            run(args.tandem, "synth", "--copy", path, "-o", copies[-1])
        columns["copy"] = [read_sound(path) for path in copies]
        for name, voice in args.voices.items():
            columns[name] = [read_sound(path) for path in speak(args, work, voice, rows)]
    return columns


# ---------------------------------------------------------------- judging

def judge(rows, columns):
    """Of every row and column what each judge says."""
    # First, for it forks: the other judges have threads.
    heard = {name: [hear(samples) for samples in sounds] for name, sounds in columns.items()}
    dnsmos, speakers = Dnsmos(), Speakers()
    known = [speakers.embed(samples) for samples in columns["original"]]
    judged = []
    for i, (row_id, text) in enumerate(rows):
        said, results = words_of(text), {}
        if sys.stderr.isatty():
            print(f"\revaluate: sentence {i + 1} of {len(rows)}", end="", file=sys.stderr, flush=True)
        others = [embedding for j, embedding in enumerate(known) if j != i] or known
        for name, sounds in columns.items():
            results[name] = {"heard": heard[name][i], "errors": count_errors(said, words_of(heard[name][i])),
                             "words": len(said),
                             "seconds": len(sounds[i]) / RATE, "dnsmos": dnsmos.rate(sounds[i]),
                             "similarity": speakers.compare(speakers.embed(sounds[i]), others),
                             **compare_prosody(columns["original"][i], sounds[i])}
        judged.append({"id": row_id, "text": text, "columns": results})
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return judged


def mean(values):
    values = [v for v in values if v is not None and math.isfinite(v)]
    return sum(values) / len(values) if values else None


def spread(values):
    """Standard error of the mean."""
    values = [v for v in values if v is not None and math.isfinite(v)]
    if len(values) < 2:
        return None
    middle = sum(values) / len(values)
    return math.sqrt(sum((v - middle) ** 2 for v in values) / (len(values) - 1) / len(values))


def draw_rates(judged, name):
    of = [row["columns"][name] for row in judged]
    return draw_error_rates([r["errors"] for r in of], [r["words"] for r in of])


def compare_voices(judged, voices):
    """By how much the first voice's word error rate is exceeded by each other one's."""
    first, *others = voices
    words = max(1, sum(row["columns"][first]["words"] for row in judged))
    compared = {}
    for name in others:
        more = sum(row["columns"][name]["errors"] - row["columns"][first]["errors"] for row in judged)
        differences = [a - b for a, b in zip(draw_rates(judged, name), draw_rates(judged, first))]
        compared[name] = {"than": first, "word_error_rate": more / words, "interval": find_interval(differences)}
    return compared


def summarise(judged, names):
    summary = {}
    for name in names:
        of = [row["columns"][name] for row in judged]
        words = sum(r["words"] for r in of)
        summary[name] = {"word_error_rate": sum(r["errors"] for r in of) / words if words else None, "words": words}
        low, high = find_interval(draw_rates(judged, name))
        summary[name].update(word_error_rate_low=low, word_error_rate_high=high)
        for key in ("dnsmos", "similarity", "pitch_error_cents", "pitch_range_cents", "voicing_error",
                    "duration_error"):
            summary[name][key] = mean([r[key] for r in of])
        summary[name]["dnsmos_standard_error"] = spread([r["dnsmos"] for r in of])
    own = summary["original"]["similarity"]
    for name in names:
        summary[name]["similarity_share"] = summary[name]["similarity"] / own if own else None
    return summary


HEADINGS = {"word_error_rate": "WER", "word_error_rate_low": "from", "word_error_rate_high": "to", "dnsmos": "DNSMOS",
            "dnsmos_standard_error": "+-", "similarity": "similarity", "similarity_share": "of own",
            "pitch_error_cents": "pitch err", "pitch_range_cents": "range", "voicing_error": "voicing",
            "duration_error": "duration"}


def print_table(summary, n_rows):
    words = summary["original"]["words"]
    print(f"{n_rows} sentences, {words} words: one word is {1 / max(1, words):.3f} of the word error rate\n")
    width = max(map(len, summary)) + 2
    print(" " * width + "".join(f"{heading:>12}" for heading in HEADINGS.values()))
    for name, values in summary.items():
        cells = ("" if values[key] is None else f"{values[key]:.0f}" if "cents" in key else f"{values[key]:.3f}"
                 for key in HEADINGS)
        print(f"{name:{width}}" + "".join(f"{cell:>12}" for cell in cells))
    print("\nOf other such sentences 95 word error rates in 100 would lie between `from` and `to`; +- is the standard error\n"
          "of DNSMOS. Pitch error and range are in cents; voicing and duration are shares.")


def print_comparison(compared):
    for name, than in compared.items():
        low, high = than["interval"]
        verdict = "" if low > 0 or high < 0 else ": cannot be told apart"
        print(f"{name} has a word error rate {than['word_error_rate']:+.3f} from that of {than['than']}, "
              f"{low:+.3f} to {high:+.3f}{verdict}")


# ---------------------------------------------------------------- arguments

def name_voices(voices):
    """Names of columns; a checkpoint without one is called as its run is."""
    named = {}
    for voice in voices:
        name, equals, path = voice.partition("=")
        if not equals or os.path.exists(voice):
            path, name = voice, "voice" if len(voices) == 1 else os.path.basename(os.path.dirname(os.path.abspath(voice)))
        if not os.path.exists(path):
            fail(f"{path} is not there; name a checkpoint or a folder of recordings")
        if name in named or name in ("original", "copy"):
            fail(f"two columns are called {name}; write NAME=VOICE")
        named[name] = path
    return named


def main():
    parser = argparse.ArgumentParser(prog="evaluate.sh", description="How a voice sounds to judges.")
    parser.add_argument("voices", nargs="*", metavar="VOICE", help="checkpoint, or folder of recordings; NAME=VOICE")
    parser.add_argument("data", metavar="DATA", help="LJSpeech folder")
    parser.add_argument("--out", metavar="DIR", help="where results.json and page.html go")
    parser.add_argument("--sentences", type=int, default=60, help="at most so many (60)")
    parser.add_argument("--seed", type=int, default=1, help="chooses them, if there are more (1)")
    parser.add_argument("--synth", type=shlex.split, default=[], metavar="OPTIONS", help="more options of `tandem synth`")
    parser.add_argument("--tandem", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--default-out", required=True, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.sentences < 1:
        parser.error("--sentences: at least 1")
    args.voices = name_voices(args.voices)
    args.out = args.out or args.default_out
    os.makedirs(args.out, exist_ok=True)
    rows = choose_rows(args)
    columns = make_columns(args, rows)
    judged = judge(rows, columns)
    summary = summarise(judged, columns)
    compared = compare_voices(judged, list(args.voices)) if args.voices else {}
    with open(os.path.join(args.out, "results.json"), "w", encoding="utf-8") as out:
        json.dump({"data": args.data, "voices": args.voices, "seed": args.seed, "columns": summary,
                   "compared": compared, "rows": judged}, out, indent=2)
    write_page(os.path.join(args.out, "page.html"), HEADINGS, summary, judged, columns)
    print_table(summary, len(rows))
    print_comparison(compared)
    print(f"\n{os.path.join(args.out, 'results.json')}\n{os.path.join(args.out, 'page.html')}")


if __name__ == "__main__":
    main()
