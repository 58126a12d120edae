#!/usr/bin/env python3
"""The grammar of demo_sentences.txt: eight patterns, and the words of their places.

    demo_grammar.py COUNT [SEED]    prints so many sentences of it, other than those of demo_sentences.txt and other
                                    than the new ones that evaluate_wer.sh speaks, so that a voice may learn them
"""

import os
import random
import re
import sys

# A word in capitals is a place. TIME may be several words.
PATTERNS = [
    "TIME, the WEATHER ADVERB MOVED over the PLACE.",
    "We left the THING and the THING WHERE the COLOR PLACE.",
    "The MOOD PERSON DID the COLOR THING TIME.",
    "TIME, the PERSON DID NUMBER COLOR THINGS.",
    "Please DO the COLOR THING WHERE the PLACE.",
    "Did the MOOD PERSON DO my THING WHERE the PLACE?",
    "Our PERSON ADVERB ACTED WHERE the PLACE TIME.",
    "The PERSON and the PERSON ACTED WHERE the PLACE.",
]
PLACES = re.compile(r"\b[A-Z]{2,}\b")
JUDGED_SEED, JUDGED = 20, 500  # of the new sentences that evaluate_wer.sh speaks, and how many there may be


def known_sentences():
    """Those of demo_sentences.txt."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "demo_sentences.txt")
    with open(path, encoding="utf-8") as lines:
        return lines.read().splitlines()


def words_of(sentence):
    return re.sub(r"[^a-z ]", "", sentence.lower()).split()


def read_patterns(sentences):
    """The words of each place, as they occur in the sentences."""
    slots = {}
    forms = [re.compile(PLACES.sub(lambda m: "(.+)" if m[0] == "TIME" else r"(\w+)", re.escape(p).replace(r"\ ", " "))
                        + "$") for p in PATTERNS]
    for sentence in sentences:
        for number, form in enumerate(forms):
            found = form.match(sentence)
            if found:
                break
        else:
            sys.exit(f"demo_grammar: a sentence that follows no pattern: {sentence}")
        for name, text in zip(PLACES.findall(PATTERNS[number]), found.groups()):
            slots.setdefault(name, set()).add(text.lower().replace("sunday", "Sunday"))
    return {name: sorted(texts) for name, texts in slots.items()}


def make_new(slots, old, count, seed=JUDGED_SEED):
    """Sentences that are not among the old ones, the same for a seed, patterns in turns."""
    rng, made = random.Random(seed), []
    while len(made) < count:
        pattern = PATTERNS[len(made) % len(PATTERNS)]
        chosen = []

        def choose(match):
            chosen.append(rng.choice([text for text in slots[match[0]] if text not in chosen]))
            return chosen[-1]

        sentence = PLACES.sub(choose, pattern)
        sentence = sentence[0].upper() + sentence[1:]
        if sentence not in old and sentence not in made:
            made.append(sentence)
    return made


def main():
    if len(sys.argv) not in (2, 3) or not all(word.isdigit() for word in sys.argv[1:]):
        sys.exit("demo_grammar: COUNT [SEED], two numbers")
    known = known_sentences()
    slots = read_patterns(known)
    taken = {*known, *make_new(slots, set(known), JUDGED)}
    seed = int(sys.argv[2]) if len(sys.argv) == 3 else JUDGED_SEED + 1
    print("\n".join(make_new(slots, taken, int(sys.argv[1]), seed)))


if __name__ == "__main__":
    main()
