#!/usr/bin/env python3
"""Measures `tandem cut` on recordings whose truth is known: rows of a dataset joined with pauses, in random order, some of
them missing in the text and some only there.

    cut.py PROGRAM DATASET OUT_DIR [--minutes 30] [--missing 0.05] [--extra 0.05] [--seed 1] [--show 10]
           [--join | --judge] [-- MORE]

Told: how many of the sentences that are both said and written are in rows that are kept, how far cuts are from the truth,
how many rows have the text of another, how many times faster than real time it was, and the memory that the program
took. The truth of a sentence is where its own recording is within 40 dB of its loudest 10 ms. Words behind -- go to `tandem cut`."""

import argparse
import array
import bisect
import json
import pathlib
import random
import resource
import subprocess
import sys
import time
import wave

MARGIN = 0.075  # what cut keeps around a row
NEAR = 0.060
ROW = 2.0, 11.0  # seconds of what can be a row by itself; what is shorter or longer can only be joined, or cut in two
OVERLAP = 0.25  # a row that reaches so far into a sentence has said some of it
# A process counts the memory of the one that it was forked from, which here holds the recording: so one stands between.
WATCH = """import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)"""


def read_wav(path):
    with wave.open(str(path)) as f:
        if f.getsampwidth() != 2 or f.getnchannels() != 1:
            sys.exit(f"cut.py: {path} is not of 16 bits and one channel")
        return f.getframerate(), array.array("h", f.readframes(f.getnframes()))


def find_sound(samples, rate):
    """First and last second of what is not silence."""
    block = rate // 100
    blocks = range(0, len(samples) - block, block)

    def power(at):
        return sum(x * x for x in samples[at:at + block:2])

    loudest = sorted(blocks, key=lambda at: max(samples[at:at + block]))[-20:]
    least = max(power(at) for at in loudest) * 1e-4
    first = next(at for at in blocks if power(at) >= least)
    last = next(at for at in reversed(blocks) if power(at) >= least)
    return first / rate, (last + block) / rate


def join(options, draw):
    """The recording, the text that is given, and where each sentence is said."""
    rows = []
    for line in (options.dataset / "metadata.csv").read_text(encoding="utf-8").splitlines():
        cells = line.split("|")
        if len(cells) > 1 and cells[1].strip():
            rows.append((cells[0], cells[1].strip()))
    texts = {}
    rows = [r for r in rows if not (r[1] in texts or texts.setdefault(r[1]))]  # each text once
    draw.shuffle(rows)
    rate, sound, truth, text = None, array.array("h"), [], []
    noise = array.array("h", draw.choices(range(-3, 4), k=1 << 20))
    for name, sentence in rows:
        if sound and len(sound) / rate > 60 * options.minutes:
            break
        if not sentence.endswith((".", "!", "?")):
            sentence += "."
        if draw.random() < options.extra:
            text.append(sentence)  # written, and not read
            continue
        own_rate, samples = read_wav(options.dataset / "wavs" / (name + ".wav"))
        rate = rate or own_rate
        if own_rate != rate:
            sys.exit("cut.py: the recordings have several rates")
        start, end = find_sound(samples, rate)
        pause = int(rate * draw.uniform(0.3, 1.2))
        at = draw.randrange(len(noise) - 2 * rate)
        sound.extend(noise[at:at + pause])
        at = len(sound) / rate
        sound.extend(samples)
        is_written = draw.random() >= options.missing
        truth.append({"text": sentence, "start": at + start, "end": at + end, "written": is_written})
        if is_written:
            text.append(sentence)
    return rate, sound, truth, text


def judge(truth, rows):
    """What was found, distances of cuts, rows with the wrong text. A row may be a part of what was joined, where that has
    several sentences; it is found once all of its parts are."""
    good = {i for i, t in enumerate(truth) if t["written"]}
    parts, distances, wrong = {}, [], []
    ends = [t["end"] for t in truth]
    for row in rows:
        if not row["kept"]:
            continue
        near = range(bisect.bisect(ends, row["start_s"]), min(bisect.bisect(ends, row["end_s"]) + 1, len(truth)))
        inside = [i for i in near
                  if min(truth[i]["end"], row["end_s"]) - max(truth[i]["start"], row["start_s"]) > OVERLAP]
        said, text = " ".join(truth[i]["text"] for i in inside) + " ", row["text"] + " "
        at = said.find(text)
        if at < 0 or not inside or (at > 0 and said[at - 1] != " "):
            wrong.append((row["text"], said))
            continue
        begin = 0
        for i in inside:
            end = begin + len(truth[i]["text"])
            parts[i] = parts.get(i, 0) + max(0, min(end, at + len(text)) - max(begin, at))
            if begin == at:
                distances.append(abs(row["start_s"] + MARGIN - truth[i]["start"]))
            if end == at + len(text) - 1:
                distances.append(abs(row["end_s"] - MARGIN - truth[i]["end"]))
            begin = end + 1
    found = {i for i, letters in parts.items() if letters >= 0.95 * len(truth[i]["text"])}
    return good, found, sorted(distances), wrong


def main():
    parser = argparse.ArgumentParser(description="Measures `tandem cut` on recordings whose truth is known")
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("dataset", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--missing", type=float, default=0.05, help="share of what is said that is not written")
    parser.add_argument("--extra", type=float, default=0.05, help="share of what is written that is not said")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--join", action="store_true", help="only make the recording and its text")
    parser.add_argument("--judge", action="store_true", help="only judge what is in OUT_DIR")
    parser.add_argument("--show", type=int, default=10, help="sentences that were not found, told at most")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:at])
    options.more = sys.argv[at + 1:]
    options.out.mkdir(parents=True, exist_ok=True)
    if options.judge:
        truth, text, seconds = json.loads((options.out / "truth.json").read_text(encoding="utf-8"))
        tell(options, truth, text, seconds)
        return 0
    rate, sound, truth, text = join(options, random.Random(options.seed))
    seconds = len(sound) / rate
    (options.out / "truth.json").write_text(json.dumps([truth, text, seconds]), encoding="utf-8")
    with wave.open(str(options.out / "long.wav"), "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(rate)
        f.writeframes(sound.tobytes())
    (options.out / "long.txt").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    if options.join:
        return 0
    begin = time.time()
    code = subprocess.run([sys.executable, "-c", WATCH, options.out / "memory", options.program, "cut", options.out / "long.wav", "--text", options.out / "long.txt", "-o",
                           options.out / "cut", *options.more]).returncode
    took = time.time() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    tell(options, truth, text, seconds)
    print(f"{seconds / took:.1f} times real time, {seconds / (used.ru_utime + used.ru_stime):.1f} of processor time; "
          f"{int((options.out / 'memory').read_text()) / 1024:.0f} MiB at most")
    return code


def tell(options, truth, text, seconds):
    lines = (options.out / "cut" / "cut.jsonl").read_text(encoding="utf-8").splitlines()
    good, found, distances, wrong = judge(truth, [json.loads(line) for line in lines])
    near = sum(d <= NEAR for d in distances) / max(1, len(distances))
    for row, said in wrong[:10]:
        print(f"wrong text: '{row}', said was '{said}'")
    rows = {i for i in good if ROW[0] <= truth[i]["end"] - truth[i]["start"] + 2 * MARGIN <= ROW[1]}
    for i in sorted(good - found)[:options.show]:
        print(f"not found, {truth[i]['end'] - truth[i]['start']:.1f} s: '{truth[i]['text']}'")
    print(f"{seconds / 60:.1f} minutes, {len(truth)} sentences said, {len(text)} written")
    print(f"found {len(found & good)} of {len(good)} that were said and written, {100 * len(found & good) / max(1, len(good)):.1f} %; "
          f"{len(found & rows)} of {len(rows)} of those of {ROW[0]:.0f} to {ROW[1]:.0f} s")
    print(f"cuts within {1000 * NEAR:.0f} ms: {100 * near:.1f} %" +
          (f", median {1000 * distances[len(distances) // 2]:.0f} ms, worst {1000 * distances[-1]:.0f} ms" if distances else ""))
    print(f"rows with the text of another: {len(wrong)}")


if __name__ == "__main__":
    sys.exit(main())
