#!/usr/bin/env bash
# Lets voices say sentences that nobody wrote for them: of licences and man pages that are installed, in English, German,
# Spanish and French. Says what was left out, each character by its name and count; ends with 1 if one sentence failed.
#   scripts/speak_documents.sh VOICE... [--sentences N] [--json] [--keep DIR]
# N sentences in all (1000), the same each time on the same computer; every voice says all of them. --keep leaves texts
# and recordings in DIR. Man pages of other languages come with the packages that have them (man-db, dpkg, apt).
# TANDEM names the program to test if it is not build/release/tandem.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

case ${1:-} in
-h | --help)
    sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac

tandem=${TANDEM:-$here/../build/release/tandem}
[[ -x $tandem ]] || {
    printf 'speak_documents: %s is not there; build it: cmake --preset release && cmake --build --preset release\n' "$tandem" >&2
    exit 1
}
exec python3 "$here/speak_documents.py" --tandem "$tandem" "$@"
