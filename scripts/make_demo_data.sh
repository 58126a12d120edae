#!/usr/bin/env bash
# Makes a small dataset in LJSpeech's layout from the sentences beside this script, spoken by espeak-ng: about
# 28 minutes by one voice, or by two in turns. The same version of espeak-ng always makes the same files.
#   scripts/make_demo_data.sh OUT_DIR [--two-speakers] [--language en|de] [--sentences FILE] [--voice NAME]
# --voice names espeak-ng's voice, that of the language if it is not given.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
sentences=
language=en
words_per_minute=160
only_voice=

die() {
    printf 'make_demo_data: %s\n' "$*" >&2
    exit "${code:-1}"
}

out=
two_speakers=0
while (($#)); do
    argument=$1
    shift
    case $argument in
    --two-speakers) two_speakers=1 ;;
    --language)
        language=${1:-}
        [[ $language == en || $language == de ]] || code=2 die "--language needs en or de"
        shift
        ;;
    --sentences)
        (($#)) || code=2 die "--sentences needs a file with one sentence a line"
        sentences=$1
        shift
        ;;
    --voice)
        (($#)) || code=2 die "--voice needs a name of \`espeak-ng --voices\`"
        only_voice=$1
        shift
        ;;
    -h | --help)
        sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    -*) code=2 die "unknown option $argument; there are --two-speakers, --language, --sentences and --voice" ;;
    *)
        [[ -z $out ]] || code=2 die "more than one folder was named: $out and $argument"
        out=$argument
        ;;
    esac
done
[[ -n $out ]] || code=2 die "no folder was named: scripts/make_demo_data.sh OUT_DIR [--two-speakers] [--language en|de] [--sentences FILE] [--voice NAME]"
case $language in
en) usual=en-us file=$here/demo_sentences.txt ;;
de) usual=de file=$here/demo_sentences_de.txt ;;
esac
sentences=${sentences:-$file}

"$here/setup.sh"
command -v espeak-ng > /dev/null || die "espeak-ng is missing; install it with your package manager"

# metadata.csv goes last, so that a folder that has it is complete.
mkdir -p -- "$out/wavs"
rm -f -- "$out/metadata.csv"
table=$(mktemp -- "$out/metadata.XXXXXX")
trap 'rm -f -- "$table"' EXIT

# One line per recording: voice, file, sentence.
list_work() {
    local n=0 sentence id voice speaker
    while IFS= read -r sentence; do
        n=$((n + 1))
        id=$(printf 'demo%04d' "$n")
        voice=${only_voice:-$usual} speaker=anna
        if ((two_speakers && n % 2 == 0)); then
            voice=$usual+m7 speaker=bert
        elif ((two_speakers)); then
            voice=$usual+f3
        fi
        if ((two_speakers)); then
            printf '%s|%s|%s|%s\n' "$id" "$sentence" "$sentence" "$speaker" >&3
        else
            printf '%s|%s|%s\n' "$id" "$sentence" "$sentence" >&3
        fi
        printf '%s\0%s\0%s\0' "$voice" "$out/wavs/$id.wav" "$sentence"
    done < "$sentences"
}

((two_speakers)) && printf 'id|text|normalised|speaker\n' > "$table"
# shellcheck disable=SC2016 # the words of the inner shell
list_work 3>> "$table" |
    xargs -0 -n 3 -P "$(nproc)" sh -c 'espeak-ng -v "$1" -s "$0" -w "$2" -- "$3"' "$words_per_minute" ||
    die "espeak-ng failed; is the disk full?"
chmod 644 -- "$table"
mv -- "$table" "$out/metadata.csv"
printf 'make_demo_data: %s recordings in %s\n' "$(wc -l < "$sentences")" "$out" >&2
