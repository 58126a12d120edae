#!/usr/bin/env bash
# Trains a vocoder on a voice's recordings, and puts both into one file.
#   scripts/train_vocoder.sh VOICE DATA FOLDER
# VOICE is a checkpoint of a voice, DATA the LJSpeech folder that it learnt from. FOLDER/voice.safetensors speaks by
# itself; `tandem synth --vocoder griffin-lim` leaves the vocoder out. What is done is not done again. TANDEM names the
# program if it is not build/release/tandem.
set -euo pipefail

case ${1:-} in
-h | --help)
    sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
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

# A training that has ended by itself leaves what it said at its end.
if [[ ! -f $out/run.txt ]]; then
    "$tandem" train --family vocoder --model-size nano --model-device cpu --train-data "$data" \
        --checkpoint-dir "$out/run" --batch-size 16 --lr 0.002 --warmup-steps 100 --scheduler cosine --max-steps 2000 \
        --val-every 500 --sample-every 100000 > "$out/run.part"
    mv -- "$out/run.part" "$out/run.txt"
fi
[[ $out/voice.safetensors -nt $out/run.txt && $out/voice.safetensors -nt $voice ]] ||
    "$tandem" bundle --quiet "$voice" "$out/run/best.safetensors" -o "$out/voice.safetensors" > "$out/bundle.log"
