#!/usr/bin/env bash
# From a fresh clone to a voice made of a person's recordings: makes the recordings (scripts/make_human_data.sh),
# trains, and speaks the sentences that were held out. scripts/evaluate.sh then judges the voice.
#   scripts/human.sh [FOLDER] [--data DIR] [--pretraining]
# All is in FOLDER, build/human if none is named. DIR is an LJSpeech folder of your own instead of the prompts.
# --pretraining lets the voice learn from synthetic speech first (scripts/make_pretraining_data.sh). What is done is not
# done again: after an interruption the same command goes on.
set -euo pipefail

die() {
    printf 'human: %s\n' "$*" >&2
    exit "${code:-1}"
}

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
out=
data=
pretraining=0
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
    --pretraining) pretraining=1 ;;
    -h | --help)
        sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    -*) code=2 die "unknown option $argument; there are --data and --pretraining" ;;
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

echo "[1/5] Packages and program"
scripts/setup.sh
[[ -f build/release/build.ninja ]] || cmake --preset release > "$out/build.log" 2>&1 || die "see $out/build.log"
cmake --build --preset release --target tandem_program > "$out/build.log" 2>&1 || die "see $out/build.log"

echo "[2/5] Recordings"
if [[ -z $data ]]; then
    data=$out/data
    [[ -f $data/metadata.csv ]] || scripts/make_human_data.sh "$data"
fi
start=()
if ((pretraining)); then
    [[ -f $out/pretraining-data/metadata.csv ]] || scripts/make_pretraining_data.sh "$out/pretraining-data"
    echo "[3/5] Pretraining on synthetic speech"
    train pretrained --train-data "$out/pretraining-data"
    start=(--init-from "$out/pretrained/best.safetensors")
else
    echo "[3/5] No pretraining"
fi

echo "[4/5] Training on the recordings"
train run --train-data "$data" "${start[@]}"

voice=$out/run/best.safetensors
sed 's/^/      /' "$out/run.txt"

echo "[5/5] Sentences that it has never seen"
if [[ -f $data/held_out.csv ]]; then
    mkdir -p -- "$out/spoken"
    cut -d '|' -f 2 -- "$data/held_out.csv" > "$out/spoken/sentences.txt"
    "$tandem" synth --quiet --checkpoint "$voice" --text-file "$out/spoken/sentences.txt" \
        -o "$out/spoken/" > "$out/spoken/log"
fi
cat << END_OF_WORDS

The voice is $voice, what it says of the held-out sentences is in $out/spoken. To judge it:
  scripts/evaluate.sh $voice $data --out $out/evaluation
END_OF_WORDS
if [[ -f $data/README ]]; then
    printf 'Who shows it to others should read %s first: it says whose recordings these are.\n' "$data/README"
fi
