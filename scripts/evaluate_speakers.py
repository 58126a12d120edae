#!/usr/bin/env python3
"""Does a voice follow its reference? Speaks sentences after recordings of either demo speaker and measures which of
the two speakers each result is nearer to.

    scripts/evaluate_speakers.py CHECKPOINT [--cases N] [--json] [--keep DIR]

The checkpoint comes from the data of `make_demo_data.sh DIR --two-speakers`, trained with `--set
model.speaker_encoder=true`. The references are recordings that it has never heard: every demo sentence is spoken by the
speaker that did not speak it in the training. A speaker is the mean and the deviation of every band of the
spectrogram, over all frames of the speaker's recordings. TANDEM names the program if it is not build/release/tandem.
Needs only Python's standard library, and espeak-ng.
"""

import argparse
import array
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SPEAKERS = ("anna", "bert")
N_KNOWN = 20  # recordings by which a speaker is known


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"evaluate_speakers: {' '.join(command)} failed:\n{done.stderr.strip()}")


def read_mel(path):
    """The frames of a spectrogram that --save-mel wrote."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        tensor = json.loads(file.read(size))["mel"]
        values = array.array("f", file.read())
    frames, bands = tensor["shape"]
    return [values[i * bands:(i + 1) * bands] for i in range(frames)]


def describe(frames):
    """Mean and deviation of each band."""
    means = [sum(band) / len(frames) for band in zip(*frames)]
    return means + [math.sqrt(sum((x - mean) ** 2 for x in band) / len(frames)) for band, mean in zip(zip(*frames), means)]


class Evaluation:
    def __init__(self, args):
        self.args = args
        self.work = args.work
        with open(os.path.join(HERE, "demo_sentences.txt"), encoding="utf-8") as lines:
            self.sentences = lines.read().splitlines()

    def synth(self, name, *how):
        """The spectrogram of what `tandem synth` makes."""
        sound, mel = (os.path.join(self.work, name + ending) for ending in (".wav", ".mel"))
        run(self.args.tandem, "synth", *how, "-o", sound, "--save-mel", mel)
        return read_mel(mel)

    def record(self):
        """Recordings by speaker, each of a sentence that the other one spoke in the training."""
        listing = os.path.join(self.work, "sentences.txt")
        with open(listing, "w", encoding="utf-8") as out:
            out.writelines(s + "\n" for s in self.sentences[1:2 * (N_KNOWN + self.args.cases) + 1])
        data = os.path.join(self.work, "data")
        run(os.path.join(HERE, "make_demo_data.sh"), data, "--two-speakers", "--sentences", listing)
        wavs = sorted(os.listdir(os.path.join(data, "wavs")))
        return {speaker: [os.path.join(data, "wavs", name) for name in wavs[i::2]]
                for i, speaker in enumerate(SPEAKERS)}

    def know(self, speaker, recordings):
        frames = []
        for i, path in enumerate(recordings[:N_KNOWN]):
            frames += self.synth(f"known_{speaker}_{i}", "--copy", path)
        return describe(frames)

    def judge(self):
        recordings = self.record()
        known = {speaker: self.know(speaker, recordings[speaker]) for speaker in SPEAKERS}
        apart = math.dist(*known.values())
        cases = []
        for i in range(self.args.cases):
            speaker = SPEAKERS[i % 2]
            sentence = self.sentences[-1 - i // 2]  # each twice, once after either speaker
            frames = self.synth(f"case_{i}", "--checkpoint", self.args.checkpoint, "--text", sentence, "--reference",
                                recordings[speaker][N_KNOWN + i // 2])
            own, other = (math.dist(describe(frames), known[s]) for s in
                          (speaker, SPEAKERS[1 - SPEAKERS.index(speaker)]))
            cases.append({"speaker": speaker, "own": own, "other": other, "text": sentence})
        return {"cases": cases, "right": sum(c["own"] < c["other"] for c in cases), "speakers_apart": apart}


def main():
    parser = argparse.ArgumentParser(prog="evaluate_speakers.py", description="Does a voice follow its reference?")
    parser.add_argument("checkpoint")
    parser.add_argument("--cases", type=int, default=20, help="half of them after each speaker (20)")
    parser.add_argument("--json", action="store_true", help="print every distance as JSON")
    parser.add_argument("--keep", metavar="DIR", help="leave all recordings there")
    args = parser.parse_args()
    if not 2 <= args.cases <= 200:
        parser.error("--cases: 2 to 200")
    args.tandem = os.environ.get("TANDEM", os.path.join(HERE, "..", "build", "release", "tandem"))
    with tempfile.TemporaryDirectory(prefix="tandem-speakers-") as folder:
        args.work = args.keep or folder
        os.makedirs(args.work, exist_ok=True)
        result = Evaluation(args).judge()
    if args.json:
        print(json.dumps(result, indent=2))
        return
    print(f"The two speakers are {result['speakers_apart']:.2f} apart.\n\n{'reference':12}{'to its own':>12}"
          f"{'to the other':>14}")
    for case in result["cases"]:
        print(f"{case['speaker']:12}{case['own']:12.2f}{case['other']:14.2f}   {case['text']}")
    print(f"\n{result['right']} of {len(result['cases'])} are nearer to the speaker of their reference.")


if __name__ == "__main__":
    main()
