"""The work of evaluate_wer.sh: makes sentences, speaks them in every way there is, and has them recognised.

The words of demo_sentences.txt, sorted by the places they stand in (demo_grammar.py), give the recogniser's grammar
and, put together anew, sentences that no voice was trained with. A recogniser with a
closed grammar only has to tell the words of a place apart; one that may put any word anywhere has a harder task.
Beside that, how long the voice speaks is compared with the original: one that does not end in time is found so.

With --unseen the open places of some of the patterns have the 200 words of unseen_words.txt, of which no training
sentence has any: what is measured then is how well a voice says words that it has never heard.
"""

import argparse
import array
import functools
import json
import math
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import wave

import pocketsphinx

from demo_grammar import PATTERNS, PLACES, known_sentences, make_new, read_patterns, words_of
from word_errors import count_errors

HERE = os.path.dirname(os.path.abspath(__file__))

# Those with the most places that unseen_words.txt has words for.
UNSEEN_PATTERNS = [PATTERNS[i] for i in (1, 2, 5, 7)]
PAUSE = 0.2  # seconds of near silence before and after, as the recogniser likes it


def read_unseen(known):
    """The words of unseen_words.txt by their places; none may be in the training sentences."""
    unseen = {}
    with open(os.path.join(HERE, "unseen_words.txt"), encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                name, *words = line.split()
                unseen[name] = words
    heard = {word for sentence in known for word in words_of(sentence)}
    if heard & {word for words in unseen.values() for word in words}:
        sys.exit("evaluate_wer: unseen_words.txt has words that demo_sentences.txt has too")
    return unseen


def make_unseen(slots, unseen):
    """Sentences until every unseen word was said, the same each time, patterns in turns."""
    rng, made, decks = random.Random(21), [], {name: [] for name in slots}
    left = {word for words in unseen.values() for word in words}

    def choose(match):
        deck = decks[match[0]]
        if not deck:
            deck += slots[match[0]]
            rng.shuffle(deck)
        left.discard(deck[-1])
        return deck.pop()

    while left:
        sentence = PLACES.sub(choose, UNSEEN_PATTERNS[len(made) % len(UNSEEN_PATTERNS)])
        made.append(sentence[0].upper() + sentence[1:])
    return made


def read_samples(path):
    """Samples, and how many there are in a second."""
    with wave.open(path, "rb") as file:
        if (file.getnchannels(), file.getsampwidth()) != (1, 2):
            sys.exit(f"evaluate_wer: {path}: not one channel of 16 bits")
        return array.array("h", file.readframes(file.getnframes())), file.getframerate()


# ---------------------------------------------------------------- recogniser

class Recogniser:
    def __init__(self, work, slots, patterns):
        model = os.path.join(pocketsphinx.get_model_path(), "en-us")
        words = sorted({w for p in patterns for w in words_of(PLACES.sub("", p))}
                       | {w for texts in slots.values() for text in texts for w in words_of(text)})
        self.n_words = len(words)
        dictionary = os.path.join(work, "words.dict")
        self.write_dictionary(os.path.join(model, "cmudict-en-us.dict"), set(words), dictionary)
        grammar, loop = os.path.join(work, "grammar.jsgf"), os.path.join(work, "loop.lm")
        self.write_grammar(slots, patterns, grammar)
        self.write_loop(words, loop)
        self.common = dict(hmm=os.path.join(model, "en-us"), dict=dictionary, nfft=1024, lw=6.5,
                           beam=1e-60, pbeam=1e-60, wbeam=1e-40, loglevel="FATAL")
        self.tasks = {"grammar": {"jsgf": grammar}, "loop": {"lm": loop}}
        rng = random.Random(0)
        self.noise = [rng.gauss(0, 3) for _ in range(1 << 16)]  # absolute silence upsets the recogniser

    @staticmethod
    def write_dictionary(source, words, path):
        known = set()
        with open(source, encoding="utf-8") as lines, open(path, "w", encoding="utf-8") as out:
            for line in lines:
                word = line.split(" ", 1)[0].split("(")[0]
                if word in words:
                    known.add(word)
                    out.write(line)
        if words - known:
            sys.exit(f"evaluate_wer: the recogniser's dictionary lacks {', '.join(sorted(words - known))}")

    @staticmethod
    def write_grammar(slots, patterns, path):
        with open(path, "w", encoding="utf-8") as out:
            out.write("#JSGF V1.0;\ngrammar demo;\n")
            rules = []
            for pattern in patterns:
                parts = re.sub(r"[.,?]", "", pattern).split()
                rules.append(" ".join(f"<{p}>" if PLACES.fullmatch(p) else p.lower() for p in parts))
            out.write(f"public <sentence> = {' | '.join(rules)};\n")
            for name, texts in slots.items():
                out.write(f"<{name}> = {' | '.join(' '.join(words_of(text)) for text in texts)};\n")

    @staticmethod
    def write_loop(words, path):
        """Every word as likely as any other, whatever came before."""
        share = math.log10(1 / (len(words) + 1))
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"\\data\\\nngram 1={len(words) + 2}\n\n\\1-grams:\n-99 <s>\n{share:.4f} </s>\n")
            out.writelines(f"{share:.4f} {word}\n" for word in words)
            out.write("\n\\end\\\n")

    @functools.cache
    def decoders(self, rate):
        return {kind: pocketsphinx.Decoder(samprate=rate, **task, **self.common) for kind, task in self.tasks.items()}

    def prepare(self, samples, rate):
        gain = 0.6 * 32767 / max(3, max(map(abs, samples), default=0))
        quiet = [0] * int(PAUSE * rate)
        noisy = (gain * x + self.noise[i & 0xffff] for i, x in enumerate([*quiet, *samples, *quiet]))
        return array.array("h", [max(-32768, min(32767, round(x))) for x in noisy]).tobytes()

    @functools.cache
    def hear(self, path):
        """What each decoder understands."""
        heard, (samples, rate) = {}, read_samples(path)
        samples = self.prepare(samples, rate)
        for kind, decoder in self.decoders(rate).items():
            decoder.start_utt()
            decoder.process_raw(samples, False, True)
            decoder.end_utt()
            hypothesis = decoder.hyp()
            heard[kind] = hypothesis.hypstr.split() if hypothesis else []
        return heard


# ---------------------------------------------------------------- speech

def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"evaluate_wer: {' '.join(command)} failed:\n{done.stderr.strip()}")


def speak_all(args, sentences):
    """Paths of the recordings, their copies and, with a checkpoint, the voice; of each sentence."""
    listing = os.path.join(args.work, "sentences.txt")
    with open(listing, "w", encoding="utf-8") as out:
        out.writelines(sentence + "\n" for sentence in sentences)
    data = os.path.join(args.work, "data")
    run(os.path.join(HERE, "make_demo_data.sh"), data, "--sentences", listing)
    kinds = {"original": [], "copy": []}
    if args.checkpoint:
        kinds["voice"] = []
    for kind in kinds:
        os.makedirs(os.path.join(args.work, kind), exist_ok=True)
    for number, sentence in enumerate(sentences, 1):
        name = f"demo{number:04}.wav"
        kinds["original"].append(os.path.join(data, "wavs", name))
        kinds["copy"].append(os.path.join(args.work, "copy", name))
        run(args.tandem, "synth", "--copy", kinds["original"][-1], "-o", kinds["copy"][-1])
        if args.checkpoint:
            kinds["voice"].append(os.path.join(args.work, "voice", name))
            run(args.tandem, "synth", "--checkpoint", args.checkpoint, "--text", sentence, *shlex.split(args.synth),
                "-o", kinds["voice"][-1])
    return kinds


def measure_length(path):
    """Seconds from the first sample to the last that is heard."""
    samples, rate = read_samples(path)
    heard = max(map(abs, samples), default=0) / 50
    places = [i for i, x in enumerate(samples) if abs(x) > heard]
    return (places[-1] - places[0] + 1) / rate if places else 1 / rate


def compare_lengths(originals, voices):
    """Lengths of speech as shares of the original's, and how many of them are right."""
    shares = [measure_length(voice) / measure_length(original) for original, voice in zip(originals, voices)]
    right = sum(0.9 <= share <= 1.1 for share in shares)
    return {"right": 100 * right / len(shares), "shortest": min(shares), "longest": max(shares)}


def judge(recogniser, sentences, paths, verbose, counted=None):
    """Word error rates, in percent; of the words of a set alone, if there is one."""
    errors, total = {}, 0
    for sentence, path in zip(sentences, paths):
        said = [word for word in words_of(sentence) if counted is None or word in counted]
        total += len(said)
        for kind, words in recogniser.hear(path).items():
            words = [word for word in words if counted is None or word in counted]
            wrong = count_errors(said, words)
            errors[kind] = errors.get(kind, 0) + wrong
            if verbose and wrong and kind == "grammar":
                print(f"  {path}\n    said  {' '.join(said)}\n    heard {' '.join(words)}", file=sys.stderr)
    return {kind: 100 * wrong / total for kind, wrong in errors.items()}


def main():
    parser = argparse.ArgumentParser(prog="evaluate_wer.sh", description="Word error rates of a voice.")
    parser.add_argument("checkpoint", nargs="?")
    parser.add_argument("--sentences", type=int, default=40, help="of each kind (40)")
    parser.add_argument("--unseen", action="store_true", help="of words that no training sentence has")
    parser.add_argument("--verbose", action="store_true", help="tell what was misunderstood")
    parser.add_argument("--json", action="store_true", help="print the rates as JSON")
    parser.add_argument("--tandem", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--synth", metavar="OPTIONS", default="", help="more options of tandem synth, for the voice")
    parser.add_argument("--keep", metavar="DIR", help="leave all recordings there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tandem-wer-") as folder:
        args.work = args.keep or folder
        os.makedirs(args.work, exist_ok=True)
        evaluate(parser, args)


def evaluate_unseen(args, slots, known):
    """Of the unseen words alone, and of all words of their sentences."""
    unseen = read_unseen(known)
    slots = {**slots, **unseen}
    sentences = make_unseen(slots, unseen)
    recogniser = Recogniser(args.work, slots, UNSEEN_PATTERNS)
    counted = {word for words in unseen.values() for word in words}
    rates = {}
    for kind, paths in speak_all(args, sentences).items():
        rates[kind] = {"unseen": judge(recogniser, sentences, paths, args.verbose, counted),
                       "all": judge(recogniser, sentences, paths, False)}
    if args.json:
        print(json.dumps({"sentences": len(sentences), "unseen_words": len(counted), "rates": rates}, indent=2))
        return
    print(f"Word error rate in %, {len(sentences)} sentences with {len(counted)} words that no training sentence has\n")
    print_rates(rates, ("unseen", "all"))


def print_rates(rates, columns):
    print(f"{'':10}{'closed grammar':>22}{'any word anywhere':>24}")
    print(f"{'':10}{columns[0]:>12}{columns[1]:>10}{columns[0]:>14}{columns[1]:>10}")
    for kind, rate in rates.items():
        print(f"{kind:10}{rate[columns[0]]['grammar']:12.1f}{rate[columns[1]]['grammar']:10.1f}"
              f"{rate[columns[0]]['loop']:14.1f}{rate[columns[1]]['loop']:10.1f}")


def evaluate(parser, args):
    known = known_sentences()
    if not 0 < args.sentences <= len(known):
        parser.error(f"--sentences: 1 to {len(known)}")
    slots = read_patterns(known)
    if args.unseen:
        evaluate_unseen(args, slots, known)
        return
    n = args.sentences
    training = [known[i * len(known) // n] for i in range(n)]
    sentences = training + make_new(slots, set(known), n)
    recogniser = Recogniser(args.work, slots, PATTERNS)
    rates = {}
    spoken = speak_all(args, sentences)
    for kind, paths in spoken.items():
        rates[kind] = {"training": judge(recogniser, sentences[:n], paths[:n], args.verbose),
                       "new": judge(recogniser, sentences[n:], paths[n:], args.verbose)}
    lengths = {}
    if args.checkpoint:
        lengths = {"training": compare_lengths(spoken["original"][:n], spoken["voice"][:n]),
                   "new": compare_lengths(spoken["original"][n:], spoken["voice"][n:])}
    if args.json:
        print(json.dumps({"sentences": n, "words": recogniser.n_words, "rates": rates, "lengths": lengths}, indent=2))
        return
    print(f"Word error rate in %, {n} sentences of each kind, {recogniser.n_words} words\n")
    print_rates(rates, ("training", "new"))
    for kind, length in lengths.items():
        print(f"\n{kind}: {length['right']:.0f} % of the lengths within 0.9 and 1.1 of the original's; "
              f"{length['shortest']:.2f} to {length['longest']:.2f}", end="")
    print()


if __name__ == "__main__":
    main()
