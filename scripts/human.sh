#!/usr/bin/env bash
# From a fresh clone to a voice made of a person's recordings: makes the recordings (scripts/make_human_data.sh), lets
# a voice learn from synthetic speech first (scripts/make_pretraining_data.sh), then from the person, trains a vocoder
# for it (scripts/train_vocoder.sh), and speaks the sentences that were held out. scripts/evaluate.sh then judges it.
#   scripts/human.sh [FOLDER] [--data DIR] [--no-pretraining]
# All is in FOLDER, build/human if none is named. DIR is an LJSpeech folder of your own instead of the prompts. What is
# done is not done again: after an interruption the same command goes on.
set -euo pipefail

die() {
    printf 'human: %s\n' "$*" >&2
    exit "${code:-1}"
}

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
out=
data=
pretraining=1
while (($#)); do
    argument=$1
    shift
    case $argument in
    --data)
        (($#)) || code=2 die "--data needs a folder"
        data=$1
        shift
        [[ -f $data/metadata.csv ]] || die "$data has no metadata.csv"
        data=$(cd -- "$data" && pwd)
        ;;
    --no-pretraining) pretraining=0 ;;
    -h | --help)
        sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    -*) code=2 die "unknown option $argument; there are --data and --no-pretraining" ;;
    *)
        [[ -z $out ]] || code=2 die "more than one folder was named: $out and $argument"
        out=$argument
        ;;
    esac
done
out=${out:-$root/build/human}
mkdir -p -- "$out"
out=$(cd -- "$out" && pwd)
cd -- "$root"
tandem=build/release/tandem
config=configs/human.ini

# A training that has ended by itself leaves what it said at its end.
train() {
    local run=$out/$1 said=$out/$1.part
    shift
    [[ -f $run.txt ]] && return
    "$tandem" train --config "$config" --checkpoint-dir "$run" "$@" > "$said"
    mv -- "$said" "$run.txt"
}

echo "[1/6] Packages and program"
scripts/setup.sh
[[ -f build/release/build.ninja ]] || cmake --preset release > "$out/build.log" 2>&1 || die "see $out/build.log"
cmake --build --preset release --target tandem_program > "$out/build.log" 2>&1 || die "see $out/build.log"

echo "[2/6] Recordings"
if [[ -z $data ]]; then
    data=$out/data
    [[ -f $data/metadata.csv ]] || scripts/make_human_data.sh "$data"
fi
start=()
if ((pretraining)); then
    [[ -f $out/pretraining-data/metadata.csv ]] || scripts/make_pretraining_data.sh "$out/pretraining-data"
    echo "[3/6] Pretraining on synthetic speech"
    train pretrained --train-data "$out/pretraining-data" --max-steps 2500 --average-decay 0 \
        --set model.dropout=0
    start=(--init-from "$out/pretrained/best.safetensors")
else
    echo "[3/6] No pretraining"
fi

echo "[4/6] Training on the recordings"
train run --train-data "$data" "${start[@]}"
sed 's/^/      /' "$out/run.txt"
voice=$out/run/$(cat -- "$out/run/latest") # its average; which of the last is best by validation is chance

echo "[5/6] Training a vocoder for the voice"
scripts/train_vocoder.sh "$voice" "$data" "$out/vocoder"

# Column NAME of the page: the held-out sentences, spoken with more options of `tandem synth`.
speak() {
    local name=$1
    shift
    mkdir -p -- "$out/spoken/$name"
    "$tandem" synth --quiet --checkpoint "$out/vocoder/voice.safetensors" --text-file "$out/spoken/sentences.txt" \
        -o "$out/spoken/$name/" "$@" > "$out/spoken/log"
}

echo "[6/6] Sentences that it has never seen"
page=
if [[ -f $data/held_out.csv ]]; then
    mkdir -p -- "$out/spoken/original"
    cut -d '|' -f 2 -- "$data/held_out.csv" > "$out/spoken/sentences.txt"
    n=0
    while IFS='|' read -r id _; do
        n=$((n + 1))
        cp -- "$data/wavs/$id.wav" "$out/spoken/original/$(printf %03d "$n").wav"
    done < "$data/held_out.csv"
    speak griffin-lim --vocoder griffin-lim
    speak neural
    page=$out/spoken/page.html
    scripts/listening_page.sh "$page" "$out/spoken/sentences.txt" original=original/%03d.wav \
        Griffin-Lim=griffin-lim/%03d.wav neural=neural/%03d.wav
fi
cat << END_OF_WORDS

The voice is $voice; $out/vocoder/voice.safetensors has
its vocoder inside. By the vocoder it sounds better, with words as clear or a little less so (docs/vocoder.md).${page:+
$page plays the held-out sentences: as recorded, by Griffin-Lim, and by the vocoder.}
To judge both:
  scripts/evaluate.sh griffin-lim=$voice neural=$out/vocoder/voice.safetensors $data --out $out/evaluation
END_OF_WORDS
if [[ -f $data/README ]]; then
    printf 'Who shows it to others should read %s first: it says whose recordings these are.\n' "$data/README"
fi
