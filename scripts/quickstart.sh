#!/usr/bin/env bash
# From a fresh clone to a voice: installs what is missing, builds, lists the devices, makes recordings to learn
# from, trains a small voice on the processor and a vocoder for it, and lets it say three sentences that it has never
# heard, on a page beside espeak-ng, from which it learnt.
#   scripts/quickstart.sh [FOLDER]
# The voice and all that belongs to it are in FOLDER, build/quickstart if none is named. What is done is not done
# again: after an interruption the same command goes on.
set -euo pipefail

usage() {
    sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

case ${1:-} in
-h | --help)
    usage
    exit 0
    ;;
-*)
    printf 'quickstart: unknown option %s\n' "$1" >&2
    usage >&2
    exit 2
    ;;
esac
(($# <= 1)) || {
    usage >&2
    exit 2
}

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
out=${1:-$root/build/quickstart}
mkdir -p -- "$out"
out=$(cd -- "$out" && pwd)
cd -- "$root"
out=${out#"$root"/}
tandem=build/release/tandem
config=configs/quickstart.ini
minutes=$(sed -n 's/^max_minutes *= *\([0-9.]*\).*/\1/p' "$config")

# None of them is among the demo's sentences; all their words are.
sentences=(
    "Please carry the yellow lantern beside the river."
    "The young sailor painted the silver mirror last night."
    "Our teacher quietly waited near the harbor this morning."
)

# ---------------------------------------------------------------- telling

parts=8 n=0 started=0

begin() {
    n=$((n + 1)) started=$SECONDS
    printf '[%d/%d] %s\n' "$n" "$parts" "$1"
}

finish() {
    printf '      %s, %d s\n' "$1" $((SECONDS - started))
}

tell_end() {
    local code=$?
    ((code == 0)) && return
    printf '\nquickstart: stopped in part %d of %d; what is done is kept, and the same command goes on from there\n' "$n" "$parts" >&2
}
trap tell_end EXIT

# ---------------------------------------------------------------- parts

fail_with() {
    cat -- "$1" >&2
    exit 1
}

# On a terminal ninja shows how far it is, on one line; elsewhere its words matter only if it fails.
build() {
    local log=$out/build.log make=(cmake --build --preset release --target tandem_program)
    [[ -f build/release/build.ninja ]] || cmake --preset release > "$log" 2>&1 || fail_with "$log"
    if [[ -t 1 ]]; then
        NINJA_STATUS='      %f of %t  ' "${make[@]}"
    else
        "${make[@]}" > "$log" 2>&1 || fail_with "$log"
    fi
}

# training.txt is what the trainer said at its end: it is there only if training has ended by itself.
train() {
    local said=$out/training.part
    "$tandem" train --config "$config" --train-data "$out/data" --checkpoint-dir "$out/run" > "$said" || return
    mv -- "$said" "$out/training.txt"
}

is_out_of_time() {
    grep -q 'time is up' "$out/training.txt"
}

# The last steps before the clock ended it were not validated, and still the best.
find_checkpoint() {
    if is_out_of_time; then
        printf '%s\n' "$out/run/$(cat -- "$out/run/latest")"
    else
        printf '%s\n' "$out/run/best.safetensors"
    fi
}

# say NUMBER PREFIX OPTION...: with these options of `tandem synth`
say() {
    local wav=$out/$2-$1.wav text=${sentences[$1 - 1]}
    shift 2
    [[ $wav -nt $out/vocoder/voice.safetensors ]] && return
    "$tandem" synth --quiet --checkpoint "$out/vocoder/voice.safetensors" --text "$text" "$@" -o "$out/part.wav" > "$out/synth.log"
    mv -- "$out/part.wav" "$wav"
}

# The sentences as espeak-ng says them, by Griffin-Lim, and by the vocoder.
make_listening_page() {
    [[ $out/listen.html -nt $out/neural-${#sentences[@]}.wav ]] && return
    printf '%s\n' "${sentences[@]}" > "$out/sentences.txt"
    scripts/make_demo_data.sh "$out/original" --sentences "$out/sentences.txt" 2> "$out/data.log" || fail_with "$out/data.log"
    scripts/listening_page.sh "$out/listen.html" "$out/sentences.txt" original=original/wavs/demo%04d.wav \
        Griffin-Lim=sentence-%d.wav neural=neural-%d.wav
}

# ---------------------------------------------------------------- the way

begin "Packages"
scripts/setup.sh
finish "all there"

begin "Build"
[[ -x $tandem ]] || echo "      the first time takes a few minutes"
build
finish "$tandem"

begin "Devices"
"$tandem" devices | sed 's/^/      /'
finish "this quick start learns on the first one of type cpu"

begin "Recordings to learn from"
if [[ -f $out/data/metadata.csv ]]; then
    finish "already in $out/data"
else
    scripts/make_demo_data.sh "$out/data" 2> "$out/data.log" || fail_with "$out/data.log"
    finish "$(wc -l < "$out/data/metadata.csv") sentences spoken by espeak-ng in $out/data"
fi

begin "Training"
if [[ -f $out/training.txt ]]; then
    finish "already done"
else
    echo "      at most $minutes minutes; the first step waits until kernels are compiled; Ctrl-C stops, nothing is lost"
    train
    finish "trained"
fi
sed 's/^/      /' "$out/training.txt"

begin "A vocoder for the voice"
checkpoint=$(find_checkpoint)
[[ -f $out/vocoder/voice.safetensors ]] || echo "      it learns to make sound of spectrograms: a few minutes more"
scripts/train_vocoder.sh "$checkpoint" "$out/data" "$out/vocoder"
finish "$out/vocoder/voice.safetensors: voice and vocoder"

begin "Three sentences that the voice has never heard"
for i in "${!sentences[@]}"; do
    printf '      %s  "%s"\n' "$out/sentence-$((i + 1)).wav" "${sentences[i]}"
    say $((i + 1)) sentence --vocoder griffin-lim
    say $((i + 1)) neural
done
make_listening_page
finish "$out/listen.html plays them side by side"

begin "Report"
[[ $out/report.html -nt $out/training.txt ]] || "$tandem" report --quiet "$out/run" -o "$out/report.html" > "$out/report.log"
finish "$out/report.html"

cat << END

Done in $((SECONDS / 60)) min $((SECONDS % 60)) s. All is in $out:
  listen.html                the three sentences as espeak-ng says them, by Griffin-Lim, and by the vocoder
  sentence-1.wav ...         those by Griffin-Lim, and neural-1.wav ... those by the vocoder: play them with anything
  report.html                the training on one page, with curves, pictures and sounds: open it in a browser
  run/samples/*.png, *.wav   what the voice made of sentences kept back, next to what it should be
  run/events.out.tfevents.*  curves, pictures and sounds:  tensorboard --logdir $out/run
  run/metrics.jsonl          the same numbers, one JSON object a line
  run/*.safetensors          the voice; best.safetensors is the one that validated best
  vocoder/voice.safetensors  the voice with its vocoder

Next:
  $tandem synth --checkpoint $checkpoint --text "We left the camera under the bridge." -o camera.wav
  docs/getting_started.md    what happened, and what to try; with a graphics card too
  docs/training.md           a voice from your own recordings
END
if is_out_of_time; then
    cat << END

This computer was too slow, or too busy, for all steps in the time of $config: the voice will be hoarse. To go on:
  rm -r $out/training.txt $out/vocoder && scripts/quickstart.sh $out
END
fi
