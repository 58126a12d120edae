#!/usr/bin/env python3
"""What the public package coqui-tts reads of the sentences of xtts_sentences.txt, and what Tandem does.

    python3 make_xtts_texts.py READER

READER is the program test_readings of a build, which says how Tandem reads. Needs a venv with coqui-tts 0.28.0,
num2words 0.5.14, pypinyin 0.55.0 and cutlet 0.5.2 with unidic-lite; the suite reads the table and needs none of them.
Nothing of the packages is written into it but what they say.

Writes golden/xtts_texts.tsv: language, sentence, what the package says, and where Tandem says something else, that.
Both are in lower case, without spaces before marks: the package does not lower the words that numbers become.
"TD_ERR_FORMAT" is a sentence that Tandem refuses, "(fails)" one at which the package fails. tests/text/test_readings.c
holds Tandem to it. docs/xtts_texts.md is the same for people: tests/lint/check_xtts_texts.py writes and checks it.
"""
import re
import subprocess
import sys
from pathlib import Path

from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer

HERE = Path(__file__).resolve().parent


def tidy(text):
    return re.sub(r" +([.,;:!?])", r"\1", re.sub(r"\s+", " ", text.lower())).strip()


def read(tokenizer, language, text):
    """As Xtts.inference() does: in lower case, then cleaned."""
    try:
        return tidy(tokenizer.preprocess_text(text.lower(), language))
    except NotImplementedError:
        return "(fails)"


def main():
    lines = (HERE / "xtts_sentences.txt").read_text().splitlines()
    run = subprocess.run([sys.argv[1], "read"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    tokenizer, rows = VoiceBpeTokenizer(), []
    for line, ours in zip(lines, run.stdout.splitlines(), strict=True):
        language, text = line.split("\t")
        theirs = read(tokenizer, language, text)
        rows.append("\t".join([language, text, theirs] + ([ours] if ours != theirs else [])))
    (HERE / "golden" / "xtts_texts.tsv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
