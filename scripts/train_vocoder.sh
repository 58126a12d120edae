#!/usr/bin/env bash
# Trains a vocoder for a voice, and puts both into one file: first on recordings as they are, then also on what the
# voice makes of their texts.
#   scripts/train_vocoder.sh VOICE DATA FOLDER
# VOICE is a checkpoint of a parallel voice, DATA the LJSpeech folder that it learnt from. FOLDER/voice.safetensors
# speaks by itself; `tandem synth --vocoder griffin-lim` still leaves the vocoder out. What is done is not done again.
# TANDEM names the program if it is not build/release/tandem.
set -euo pipefail

case ${1:-} in
-h | --help)
    sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac
(($# == 3)) || {
    echo 'train_vocoder: name a voice, its recordings and a folder; --help tells more' >&2
    exit 2
}
voice=$1 data=$2 out=$3
tandem=${TANDEM:-$(dirname -- "${BASH_SOURCE[0]}")/../build/release/tandem}
mkdir -p -- "$out"

# A training that has ended by itself leaves what it said at its end. Recordings are cut into crops: all lengths do.
train() {
    local run=$out/$1
    shift
    [[ -f $run.txt ]] && return
    "$tandem" train --family vocoder --model-size nano --model-device cpu --train-data "$data" --checkpoint-dir "$run" \
        --batch-size 16 --scheduler cosine --max-mel-frames 2600 --max-text-length 600 --sample-every 100000 \
        "$@" > "$run.part"
    mv -- "$run.part" "$run.txt"
}

train recorded --max-steps 2000 --val-every 1000 --lr 0.002 --warmup-steps 100
train predicted --max-steps 800 --val-every 400 --lr 0.0012 --warmup-steps 50 --acoustic "$voice" \
    --init-from "$out/recorded/best.safetensors"
[[ $out/voice.safetensors -nt $out/predicted.txt ]] ||
    "$tandem" bundle --quiet "$voice" "$out/predicted/best.safetensors" -o "$out/voice.safetensors" > "$out/bundle.log"
