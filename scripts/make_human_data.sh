#!/usr/bin/env bash
# Makes a small dataset of human speech in LJSpeech's layout: the prompts of Debian's package
# asterisk-core-sounds-en-g722, spoken by one woman, about 18 minutes, and sentences held out to judge a voice by.
#   scripts/make_human_data.sh [DIR] [--seed N] [--held-out N] [--single-words]
# DIR is build/human/data if none is named; 20 sentences are held out, chosen with seed 1. --single-words takes prompts
# of one word too. The same versions of the packages always make the same files. The recordings are CC-BY-SA-3.0:
# DIR/README says what that asks for.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
packages=(asterisk-core-sounds-en asterisk-core-sounds-en-g722) # texts, recordings

die() {
    printf 'make_human_data: %s\n' "$*" >&2
    exit "${code:-1}"
}

out=
seed=1
held_out=20
single_words=()
while (($#)); do
    argument=$1
    shift
    case $argument in
    --seed | --held-out)
        [[ ${1:-} =~ ^[0-9]{1,9}$ ]] || code=2 die "$argument needs a number"
        if [[ $argument == --seed ]]; then seed=$1; else held_out=$1; fi
        shift
        ;;
    --single-words) single_words=(--single-words) ;;
    -h | --help)
        sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    -*) code=2 die "unknown option $argument; there are --seed, --held-out and --single-words" ;;
    *)
        [[ -z $out ]] || code=2 die "more than one folder was named: $out and $argument"
        out=$argument
        ;;
    esac
done
out=${out:-$here/../build/human/data}

"$here/setup.sh"
if ! command -v apt-get > /dev/null || ! command -v dpkg-deb > /dev/null; then
    die "the recordings come as Debian packages, and this system has no apt-get"
fi
mkdir -p -- "$out"
out=$(cd -- "$out" && pwd)
rm -f -- "$out/metadata.csv"

# The packages are unpacked beside the dataset, not installed: some systems leave out documentation, and the texts are
# documentation.
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
chmod 755 -- "$work"
cd -- "$work"
apt-get download -qq "${packages[@]}" > log 2>&1 || { # the package lists may be missing or old
    cat log >&2
    die "apt-get download ${packages[*]} failed; run apt-get update as root, and see that there is a network"
}
for file in *.deb; do
    dpkg-deb -x "$file" .
done
# shellcheck disable=SC2016 # words of dpkg-deb
versions=$(for file in *.deb; do dpkg-deb -W --showformat='${Package} ${Version}, ' "$file"; done)
python3 "$here/make_human_data.py" "$out" --seed "$seed" --held-out "$held_out" --packages "Debian's ${versions%, }" \
    "${single_words[@]}" \
    --sounds usr/share/asterisk/sounds/en_US_f_Allison \
    --transcript usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz
