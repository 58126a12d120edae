#!/usr/bin/env bash
# Trains the aligner that `tandem cut` hears with, on sentences spoken by many voices of espeak-ng, and puts it where cut
# looks for it. Takes a minute or a few, half of it espeak-ng's; what was interrupted goes on when it is called again.
#   scripts/make_aligner.sh [FILE] [--work DIR] [--program FILE]
# FILE is the cache's aligner.safetensors if none is named; the recordings and the run are in build/aligner.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

die() {
    printf 'make_aligner: %s\n' "$*" >&2
    exit "${code:-1}"
}

out=
work=$here/../build/aligner
program=$here/../build/release/tandem
while (($#)); do
    argument=$1
    shift
    case $argument in
    --work | --program)
        (($#)) || code=2 die "$argument needs a path"
        if [[ $argument == --work ]]; then work=$1; else program=$1; fi
        shift
        ;;
    -h | --help)
        sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    -*) code=2 die "unknown option $argument; there are --work and --program" ;;
    *)
        [[ -z $out ]] || code=2 die "more than one file was named: $out and $argument"
        out=$argument
        ;;
    esac
done
out=${out:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem/aligner.safetensors}

"$here/setup.sh"
command -v espeak-ng > /dev/null || die "espeak-ng is missing; install it with your package manager"
[[ -x $program ]] || die "there is no $program; build it (README.md), or name it with --program"

mkdir -p -- "$work" "$(dirname -- "$out")"
[[ -e $work/data/metadata.csv ]] || python3 "$here/make_aligner_data.py" "$work/data"
"$program" train --config "$here/../configs/aligner.ini" --train-data "$work/data" --checkpoint-dir "$work/run"
"$program" inspect "$work/run/best.safetensors" --slim "$out"
printf 'make_aligner: %s\n' "$out" >&2
