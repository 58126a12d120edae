#!/usr/bin/env bash
# Makes synthetic speech to pretrain an English voice with, in LJSpeech's layout: many different sentences, read by
# espeak-ng with a woman's voice. Their texts are the licences that every Debian has and Debian's package fortunes.
#   scripts/make_pretraining_data.sh [DIR] [--sentences N] [--seed S]
# DIR is build/human/pretraining if none is named; 1500 sentences, about 100 minutes, chosen with seed 1. The same
# versions of the packages always make the same files.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

die() {
    printf 'make_pretraining_data: %s\n' "$*" >&2
    exit "${code:-1}"
}

out=
sentences=1500
seed=1
while (($#)); do
    argument=$1
    shift
    case $argument in
    --seed | --sentences)
        [[ ${1:-} =~ ^[0-9]{1,6}$ ]] || code=2 die "$argument needs a number"
        if [[ $argument == --seed ]]; then seed=$1; else sentences=$1; fi
        shift
        ;;
    -h | --help)
        sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    -*) code=2 die "unknown option $argument; there are --sentences and --seed" ;;
    *)
        [[ -z $out ]] || code=2 die "more than one folder was named: $out and $argument"
        out=$argument
        ;;
    esac
done
out=${out:-$here/../build/human/pretraining}

"$here/setup.sh"
if ! command -v apt-get > /dev/null || ! command -v dpkg-deb > /dev/null; then
    die "texts come from a Debian package, and this system has no apt-get"
fi
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
chmod 755 -- "$work"
(cd -- "$work" && apt-get download -qq fortunes > log 2>&1) || {
    cat -- "$work/log" >&2
    die "apt-get download fortunes failed; run apt-get update as root, and see that there is a network"
}
dpkg-deb -x "$work"/fortunes_*.deb "$work"

# Whole sentences of words alone, each once: paragraphs are joined, cut behind full stops, and those left out that have
# anything but letters and common marks, words all in capitals, or that are too short or too long for training.
python3 - "$seed" "$sentences" /usr/share/common-licenses "$work/usr/share/games/fortunes" > "$work/sentences.txt" << 'PYTHON'
import os
import random
import re
import sys

seed, count, folders = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
found = {}
for folder in folders:
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.islink(path) or os.path.splitext(name)[1]:
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        for paragraph in re.split(r"\n\s*\n|\n%\n", text):
            for sentence in re.split(r"(?<=[a-z][.?!])\s+", " ".join(paragraph.split())):
                if not re.fullmatch(r"[A-Z][A-Za-z',;: -]*[a-z][.?!]", sentence) or re.search(r"[A-Z]{2}|--", sentence):
                    continue
                if 4 <= len(sentence.split()) <= 22 and 20 <= len(sentence) <= 130:
                    found.setdefault(sentence.lower(), sentence)
if len(found) < count:
    sys.exit(f"make_pretraining_data: there are {len(found)} sentences, not {count}")
for sentence in random.Random(seed).sample(sorted(found.values()), count):
    print(sentence)
PYTHON
"$here/make_demo_data.sh" "$out" --sentences "$work/sentences.txt" --voice en-us+f3
mv -- "$out/metadata.csv" "$work" # back again at the end: a folder that has it is complete

# espeak-ng begins with the first sound itself and ends with a third of a second of silence. A person's recordings begin
# with a breath of silence; a voice that has never met one learns to leave out what comes first. So the pauses become
# about as long as a person's, each another.
python3 - "$out/wavs" "$seed" << 'PYTHON'
import array
import os
import random
import sys
import wave

LOUD = 60  # of 32768
folder, seed = sys.argv[1], sys.argv[2]
for name in sorted(os.listdir(folder)):
    path = os.path.join(folder, name)
    with wave.open(path) as file:
        settings = file.getparams()
        samples = array.array("h", file.readframes(settings.nframes))
    first, last = 0, len(samples)
    while first < last and abs(samples[first]) <= LOUD:
        first += 1
    while last > first and abs(samples[last - 1]) <= LOUD:
        last -= 1
    draw = random.Random(f"{seed} {name}")
    before, behind = (array.array("h", bytes(2 * int(settings.framerate * draw.uniform(*seconds))))
                      for seconds in ((0.06, 0.16), (0.08, 0.18)))
    with wave.open(path + ".part", "wb") as file:
        file.setparams(settings)
        file.writeframes((before + samples[first:last] + behind).tobytes())
    os.replace(path + ".part", path)
PYTHON
mv -- "$work/metadata.csv" "$out"
