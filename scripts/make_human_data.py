"""The work of make_human_data.sh: reads the transcript, decodes the prompts, leaves out what is no speech or whose text
is not what is said, and writes an LJSpeech folder with some sentences held out.

G.722 is decoded by libspandsp, which is opened at run time.
"""

import argparse
import array
import ctypes
import gzip
import os
import random
import re
import sys
import wave

RATE = 16000
BITS_PER_SECOND = 64000  # of G.722: a byte is two samples
LETTERS_PER_SECOND = 6.0, 24.0  # of speech; what lies outside has a text that is not what is said
LETTERS_PER_SECOND_OF_WORD = 3.0, 24.0  # alone it is spoken slowly
MOST_SECONDS = 30.0
SENTENCE_WORDS = 5  # from here on a letter or an acronym is one word among others
HELD_OUT_SECONDS = 2.0, 10.0  # long enough for judges, short enough for a sentence
HELD_OUT_WORDS = 4

README = """\
Recorded prompts of the telephone system Asterisk, in LJSpeech's layout. Made by scripts/make_human_data.sh.

Speaker:  Allison Smith (one woman, American English)
Source:   {packages}
Licence:  CC-BY-SA-3.0 (https://creativecommons.org/licenses/by-sa/3.0/), Copyright 2003-2010 Allison Smith
          Whoever passes on these recordings, or shows a voice that was made of them, names the speaker and this
          licence.
Changed:  decoded from G.722 to WAV of 16 bits at 16 kHz; texts without notes and dots of omission.

metadata.csv   what to train with: id|text, {n_train} recordings, {train_minutes:.1f} minutes
held_out.csv   what to judge a voice by: id|text, {n_held} recordings, chosen with seed {seed}; none of their texts is
               in metadata.csv, nor part of a text there
dropped.csv    what was left out: id|reason|text, {n_dropped} rows
"""


def fail(text):
    sys.exit(f"make_human_data: {text}")


# ---------------------------------------------------------------- G.722

class Decoder:
    def __init__(self):
        try:
            self.library = ctypes.CDLL("libspandsp.so.2")
        except OSError:
            fail("libspandsp.so.2 is missing, which decodes G.722; on Debian it is the package libspandsp2")
        self.library.g722_decode_init.restype = ctypes.c_void_p
        self.library.g722_decode_init.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        self.library.g722_decode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
        self.library.g722_decode_free.argtypes = [ctypes.c_void_p]

    def decode(self, path):
        with open(path, "rb") as file:
            packed = file.read()
        samples = (ctypes.c_int16 * (2 * len(packed)))()
        state = self.library.g722_decode_init(None, BITS_PER_SECOND, 0)
        count = self.library.g722_decode(state, samples, packed, len(packed))
        self.library.g722_decode_free(state)
        return array.array("h", samples[:count])


def write_wav(path, samples):
    if sys.byteorder == "big":
        samples.byteswap()
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())


# ---------------------------------------------------------------- texts

def read_transcript(path):
    """Pairs of a name and a text."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            name, colon, text = line.strip().partition(":")
            if colon and not name.startswith(";"):
                yield name.strip(), text.strip()


def clean(text):
    """What is spoken: without dots that stand for what comes before or behind."""
    text = text.replace("*", " star ")
    text = re.sub(r"\.\.+|\u2026", " ", text)
    return re.sub(r"\s+", " ", text).strip()


def words_of(text):
    return re.sub(r"[^a-z0-9' ]", " ", text.lower()).split()


def find_fault(text, single_words):
    """Why a text is no use, or None."""
    if not text:
        return "no text"
    if re.search(r"[\[(<]", text):
        return "a note, a tone or a noise"
    words = words_of(text)
    if len(words) < (1 if single_words else 2):
        return "no word" if single_words else "fewer than two words"
    if len(words) < SENTENCE_WORDS and re.search(r"\b(?![AI]\b)[A-Z]\b|[A-Z]{2,}|^\w$", text):
        return "little but letters or an acronym"
    return None


def count_letters(text):
    """Letters as they are spoken: a digit is a word of about four."""
    return sum(4 if c.isdigit() else 1 for c in text if c.isalnum())


def find_bad_length(text, seconds):
    if seconds > MOST_SECONDS:
        return f"longer than {MOST_SECONDS:.0f} s"
    pace = count_letters(text) / seconds if seconds else 0
    least, most = LETTERS_PER_SECOND if len(words_of(text)) > 1 else LETTERS_PER_SECOND_OF_WORD
    if not least <= pace <= most:
        return "length does not fit the text"
    return None


# ---------------------------------------------------------------- rows

def read_rows(args):
    """Rows that are kept, as (id, text, samples), and those that are not, as (id, reason, text)."""
    decoder, kept, dropped, seen = Decoder(), [], [], set()
    for name, original in read_transcript(args.transcript):
        text, row_id = clean(original), name.replace("/", "-")
        path = os.path.join(args.sounds, name + ".g722")
        reason = find_fault(text, args.single_words)
        if row_id in seen:
            reason = "the same name twice"
        elif not os.path.exists(path):
            reason = "no recording"
        seen.add(row_id)
        if not reason:
            samples = decoder.decode(path)
            reason = find_bad_length(text, len(samples) / RATE)
        if reason:
            dropped.append((row_id, reason, original))
        else:
            kept.append((row_id, text, samples))
    return kept, dropped


def choose_held_out(kept, count, seed):
    """Identifiers of sentences that judge a voice: new as a whole, and no part of a text that it learns from."""
    plain = {row_id: f" {' '.join(words_of(text))} " for row_id, text, _ in kept}
    fitting = []
    for row_id, text, samples in kept:
        seconds = len(samples) / RATE
        if len(words_of(text)) < HELD_OUT_WORDS or not HELD_OUT_SECONDS[0] <= seconds <= HELD_OUT_SECONDS[1]:
            continue
        if any(plain[row_id] in other for other_id, other in plain.items() if other_id != row_id):
            continue
        fitting.append(row_id)
    if len(fitting) < count:
        fail(f"only {len(fitting)} sentences can be held out, not {count}")
    return set(random.Random(seed).sample(sorted(fitting), count))


def write_table(path, rows):
    with open(path + ".part", "w", encoding="utf-8") as out:
        out.writelines("|".join(row) + "\n" for row in rows)
    os.replace(path + ".part", path)


def tell(kept, dropped, held, out):
    reasons = {}
    for _, reason, _ in dropped:
        reasons[reason] = reasons.get(reason, 0) + 1
    print(f"make_human_data: {len(kept) - len(held)} recordings to learn from and {len(held)} held out, in {out}",
          file=sys.stderr)
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        print(f"  left out: {count:4}  {reason}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(prog="make_human_data.sh", description="An LJSpeech folder of recorded prompts.")
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--held-out", type=int, required=True)
    parser.add_argument("--single-words", action="store_true")
    parser.add_argument("--sounds", required=True)
    parser.add_argument("--transcript", required=True)
    parser.add_argument("--packages", required=True)
    args = parser.parse_args()
    kept, dropped = read_rows(args)
    held = choose_held_out(kept, args.held_out, args.seed)
    # metadata.csv goes last, so that a folder that has it is complete.
    wavs = os.path.join(args.out, "wavs")
    os.makedirs(wavs, exist_ok=True)
    for row_id, _, samples in kept:
        write_wav(os.path.join(wavs, row_id + ".wav"), samples)
    training = [(row_id, text) for row_id, text, _ in kept if row_id not in held]
    minutes = sum(len(samples) for row_id, _, samples in kept if row_id not in held) / RATE / 60
    with open(os.path.join(args.out, "README"), "w", encoding="utf-8") as out:
        out.write(README.format(packages=args.packages, n_train=len(training), train_minutes=minutes, n_held=len(held),
                                seed=args.seed, n_dropped=len(dropped)))
    write_table(os.path.join(args.out, "dropped.csv"), dropped)
    write_table(os.path.join(args.out, "held_out.csv"), [(i, text) for i, text, _ in kept if i in held])
    write_table(os.path.join(args.out, "metadata.csv"), training)
    tell(kept, dropped, held, args.out)


if __name__ == "__main__":
    main()
