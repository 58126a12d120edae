#!/usr/bin/env bash
# Writes a page that plays the same sentences spoken in several ways, side by side.
#   scripts/listening_page.sh PAGE SENTENCES NAME=PATTERN...
# SENTENCES has one sentence a line. PATTERN is where the sounds of a way are, seen from the page's folder, with %d or
# %03d in place of the sentence's number: griffin-lim/%03d.wav.
set -euo pipefail

case ${1:-} in
-h | --help)
    sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac

die() {
    printf 'listening_page: %s\n' "$*" >&2
    exit 1
}

(($# >= 3)) || die "name a page, a file of sentences, and one way to speak at least; --help tells more"
page=$1 sentences=$2
shift 2
folder=$(dirname -- "$page")

escape() {
    sed 's/&/\&amp;/g; s/</\&lt;/g; s/"/\&quot;/g' <<< "$1"
}

write_page() {
    local sentence way path n=0
    printf '<!doctype html><meta charset=utf-8><title>Side by side</title>\n<style>body { font: 15px sans-serif; margin: 2em }'
    printf ' td, th { padding: .4em .8em; text-align: left; border-bottom: 1px solid #ccc }</style>\n<table><tr><th>'
    for way; do
        printf '<th>%s' "$(escape "${way%%=*}")"
    done
    while IFS= read -r sentence; do
        n=$((n + 1))
        printf '\n<tr><td>%s' "$(escape "$sentence")"
        for way; do
            # shellcheck disable=SC2059 # the pattern is a format
            printf -v path "${way#*=}" "$n"
            [[ -f $folder/$path ]] || die "$folder/$path is not there"
            printf '<td><audio controls preload=none src="%s"></audio>' "$(escape "$path")"
        done
    done < "$sentences"
    printf '\n</table>\n'
}

write_page "$@" > "$page.part"
mv -- "$page.part" "$page"
