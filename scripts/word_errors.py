"""Words as recognisers are judged by them, for evaluate.sh and evaluate_wer.sh. Covered by tests/cli/test_scripts.py."""

import random
import re

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen").split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()


def spell(number):
    """As it is said up to 999, then digit by digit."""
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10] + (" " + ONES[number % 10] if number % 10 else "")
    if number < 1000:
        return ONES[number // 100] + " hundred" + (" " + spell(number % 100) if number % 100 else "")
    return " ".join(ONES[int(digit)] for digit in str(number))


SHORT = {"'re": " are", "'m": " am", "'ll": " will", "'ve": " have", "n't": " not"}


def words_of(text):
    """Words as they are compared: no case, no punctuation, no hyphens, numbers in words, short forms written out."""
    text = re.sub(r"(?<=[a-z])-(?=[a-z])", "", text.lower().replace("\u2019", "'"))
    text = re.sub(r"(?<=[a-z])('re|'m|'ll|'ve|n't)\b", lambda m: SHORT[m[1]], text)
    text = re.sub(r"\d+", lambda m: f" {spell(int(m[0]))} ", text)
    return [word for word in (w.strip("'") for w in re.sub(r"[^a-z']", " ", text).split()) if word]


def count_errors(said, heard):
    """Words to insert, delete or replace. Two words that are written as one, or one as two, sound the same."""
    rows = []
    for i in range(len(said) + 1):
        rows.append([i] + [0] * len(heard))
        for j in range(1, len(heard) + 1):
            if i == 0:
                rows[0][j] = j
                continue
            best = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (said[i - 1] != heard[j - 1]))
            if i > 1 and said[i - 2] + said[i - 1] == heard[j - 1]:
                best = min(best, rows[i - 2][j - 1])
            if j > 1 and said[i - 1] == heard[j - 2] + heard[j - 1]:
                best = min(best, rows[i - 1][j - 2])
            rows[i][j] = best
    return rows[-1][-1]


def draw_error_rates(errors, words, draws=2000):
    """Word error rates had other sentences of this kind been judged: those that were are drawn, as many and with
    repetition. Draws are the same for all voices that are judged by the same sentences, so that two can be compared."""
    draw = random.Random(0)
    rates = []
    for _ in range(draws):
        drawn = draw.choices(range(len(words)), k=len(words))
        rates.append(sum(errors[i] for i in drawn) / max(1, sum(words[i] for i in drawn)))
    return rates


def find_interval(values):
    """Between which 95 of 100 values lie."""
    ordered = sorted(values)
    return ordered[int(0.025 * len(ordered))], ordered[int(0.975 * len(ordered))]
