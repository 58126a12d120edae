#!/usr/bin/env python3
"""Compares how Tandem writes Chinese and Korean in Latin letters with the packages that Coqui uses, and prints JSON.

    romanize.py WORDS [--build build/release] [--most 10000]

WORDS has lines "WORD COUNT ..", such as the dictionary of jieba; of those with Chinese characters alone the most
frequent are read by both. Korean: all 11,172 syllables, and each behind some others. pypinyin and ko_speech_tools are
tools of this comparison alone.
"""
import argparse
import json
import os
import subprocess

from ko_speech_tools import hangul_romanize
from pypinyin import Style, pinyin

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def read_here(build, language, words):
    run = subprocess.run([os.path.join(ROOT, build, "tests/test_readings"), "read"], capture_output=True, text=True,
                         check=True, input="".join(f"{language}\t{word}\n" for word in words))
    return run.stdout.splitlines()


def compare(ours, theirs, counts):
    same = [a == b for a, b in zip(ours, theirs, strict=True)]
    return {"words": len(same), "alike": sum(same),
            "share_of_occurrences": sum(c for c, s in zip(counts, same) if s) / sum(counts)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("words")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--most", type=int, default=10000)
    args = parser.parse_args()
    found = []
    with open(args.words, encoding="utf-8") as lines:
        for line in lines:
            word, count = line.split()[:2]
            if all("\u4e00" <= c <= "\u9fff" for c in word):
                found.append((int(count), word))
    found.sort(reverse=True)
    counts, words = zip(*found[:args.most])
    theirs = ["".join(p[0] for p in pinyin(w, style=Style.TONE3, heteronym=False, neutral_tone_with_five=True)) for w in words]
    ours = read_here(args.build, "zh", words)
    out = {"zh": compare(ours, theirs, counts)}
    out["zh"]["frequent_differences"] = [f"{w} {b} {a}" for w, a, b in zip(words, ours, theirs) if a != b][:20]
    syllables = [chr(c) for c in range(0xAC00, 0xD7A4)]
    korean = [before + s for before in ["", "각", "밖", "삯", "물", "강", "옷", "가"] for s in syllables]
    out["ko"] = compare(read_here(args.build, "ko", korean), [hangul_romanize(w) for w in korean], [1] * len(korean))
    print(json.dumps(out, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
