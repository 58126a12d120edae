#!/usr/bin/env bash
# How well a recogniser understands a voice: word error rates of training sentences and of new sentences of the
# same words, beside those of the original recordings and of their copies through the vocoder; and whether the voice
# speaks as long as the original.
#   scripts/evaluate_wer.sh [CHECKPOINT] [--sentences N] [--unseen] [--verbose] [--json] [--keep DIR]
#       [--synth 'OPTIONS']
# Without CHECKPOINT: recordings and copies only. --unseen: of 200 words that no training sentence has. --keep leaves
# all recordings in DIR. OPTIONS are more of `tandem synth`, such as a reference for XTTS. The recogniser is pocketsphinx
# from PyPI, in build/wer/venv. TANDEM names the program to test if it is not build/release/tandem.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
work=$here/../build/wer
pocketsphinx=5.1.1

case ${1:-} in
-h | --help)
    sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac

tandem=${TANDEM:-$here/../build/release/tandem}
[[ -x $tandem ]] || {
    printf 'evaluate_wer: %s is not there; build it: cmake --preset release && cmake --build --preset release\n' "$tandem" >&2
    exit 1
}
mkdir -p -- "$work"
if [[ $(cat "$work/venv/version" 2> /dev/null) != "$pocketsphinx" ]]; then
    log=$work/pip.log
    {
        python3 -m venv --clear "$work/venv" && "$work/venv/bin/pip" install --no-deps "pocketsphinx==$pocketsphinx"
    } > "$log" 2>&1 || {
        tail -n 5 "$log" >&2
        printf 'evaluate_wer: no recogniser; is python3-venv installed, is there a network?\n' >&2
        exit 1
    }
    echo "$pocketsphinx" > "$work/venv/version"
fi
exec "$work/venv/bin/python" "$here/evaluate_wer.py" --tandem "$tandem" "$@"
