#!/usr/bin/env python3
"""Compares Tandem's byte-pair encoding with Hugging Face's `tokenizers`, token by token, and prints JSON.

    bpe.py [--build build/release] [--lines 2000]

A vocabulary of the kind XTTS uses (added tokens, Whitespace pre-tokenizer, BPE with an unknown token) is trained by
that library on the demo sentences and drawn words; then lines drawn from them, with marks, capitals, digits, accents,
other scripts, emoji and names of added tokens mixed in, are encoded by both. `tokenizers` is a tool of this comparison
alone: pip install tokenizers.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ADDED = ["[STOP]", "[UNK]", "[SPACE]", "[START]", "[en]", "[de]"]
ODD = ["é", "ß", "naïve", "Ünder", "你好", "世界", "мир", "привет", "한국어", "हिन्दी", "مرحبا", "🙂", "e\u0301", "\u00a0", "\t",
       "...", "?!", "—", "''", "x²", "3.14", "1,000", "_a_", "[en]", "[STOP]", "[UNK", "SPACE]", "[", "]]", "don't", "a-b"]


def train(path, sentences):
    rng = random.Random(1)
    made = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyzäé") for _ in range(rng.randint(1, 12))) for _ in range(3000)]
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=ADDED, show_progress=False)
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator([s.lower() for s in sentences] + made, trainer)
    tokenizer.save(path)
    return tokenizer


def draw_lines(sentences, count):
    rng = random.Random(2)
    words = sorted({word for s in sentences for word in s.split()})
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(0, 20)):
            kind = rng.random()
            if kind < 0.5:
                parts.append(rng.choice(words))
            elif kind < 0.7:
                parts.append(rng.choice(ODD))
            else:
                parts.append("".join(rng.choice("abcdefghijklmnopqrstuvwxyzABC0123456789.,;:!?'\"-()äéж")
                                     for _ in range(rng.randint(1, 15))))
        yield rng.choice(["", " "]).join(parts) if rng.random() < 0.2 else " ".join(parts)


def encode_here(args, vocabulary, lines):
    """The ids of each line by the library of the build."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "bpe_tokens")
        libraries = subprocess.run(["pkg-config", "--libs", "inih", "libxxhash", "icu-i18n", "icu-uc", "libexttextcat",
                                    "libcjson", "sndfile", "soxr", "libpng"], check=True, stdout=subprocess.PIPE, text=True)
        subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", f"-I{ROOT}/src", f"-I{ROOT}/include", "-o", program,
                        os.path.join(ROOT, "tests/peers/bpe_tokens.c"), os.path.join(args.build, "src/libtandem.a"),
                        *libraries.stdout.split(), "-ldl", "-lm", "-lpthread"], check=True)
        done = subprocess.run([program, vocabulary], input="".join(line + "\n" for line in lines).encode(), check=True,
                              stdout=subprocess.PIPE)
    return [[int(number) for number in row.split()] for row in done.stdout.decode().split("\n")[:-1]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--lines", type=int, default=2000)
    args = parser.parse_args()
    with open(os.path.join(ROOT, "scripts/demo_sentences.txt"), encoding="utf-8") as file:
        sentences = file.read().splitlines()
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = os.path.join(folder, "vocab.json")
        peer = train(vocabulary, sentences)
        lines = list(draw_lines(sentences, args.lines))
        ours = encode_here(args, vocabulary, lines)
    theirs = [peer.encode("[en]" + line.replace(" ", "[SPACE]")).ids for line in lines]
    wrong = [i for i in range(len(lines)) if i >= len(ours) or ours[i] != theirs[i]]
    for i in wrong[:5]:
        print(f"{lines[i]!r}\n  here  {ours[i] if i < len(ours) else None}\n  there {theirs[i]}", file=sys.stderr)
    print(json.dumps({"tokenizers": tokenizers.__version__, "vocabulary": peer.get_vocab_size(), "lines": len(lines),
                      "tokens": sum(map(len, theirs)), "different_lines": len(wrong)}, indent=2))
    sys.exit(bool(wrong) or len(ours) != len(lines))


if __name__ == "__main__":
    main()
