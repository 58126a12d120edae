#!/usr/bin/env bash
# Trains the smallest model for a long time, with validation, samples, checkpoints and resuming over and over, and judges
# whether memory and file descriptors stay flat:
#
#   scripts/soak.sh MINUTES [DATA_DIR]    a folder in LJSpeech's layout; 60 spoken sentences are made if none is given
#
# SESSIONS processes share the time; each goes on where a SIGTERM ended the one before. In each, the first third
# is warm-up; the medians of the fifth after it and of the last fifth are compared. Ends with 1 if resident memory grew
# by more than 2 %, a descriptor was left open, or a process did not end as it should. What was measured is in
# build/soak/*.tsv: seconds, resident kB, descriptors, threads.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

sessions=2
every_s=2
most_growth_percent=2
if (($# < 1 || $# > 2)) || ! [[ $1 =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
    echo "usage: scripts/soak.sh MINUTES [DATA_DIR]" >&2
    exit 2
fi
session_s=$(awk -v m="$1" -v n=$sessions 'BEGIN { printf "%d", m * 60 / n }')
if ((session_s < 30)); then
    echo "soak.sh: $1 minutes are too few to tell; give at least 1" >&2
    exit 2
fi

tandem=${TANDEM:-build/release/tandem} # another program, for instance of the dev preset
if [[ ! -x $tandem ]]; then
    cmake --preset release > /dev/null
    cmake --build --preset release --target tandem_program
fi
work=build/soak
rm -rf -- "$work"
mkdir -p "$work"
data=${2:-$work/data}
if (($# == 1)); then
    head -n 60 scripts/demo_sentences.txt > "$work/sentences.txt"
    scripts/make_demo_data.sh "$data" --sentences "$work/sentences.txt"
fi

run=$work/run
options=(--config configs/cpu_test.ini --train-data "$data" --checkpoint-dir "$run" --cache-dir "$work/cache"
    --max-steps 100000000 --val-every 50 --save-every 25 --sample-every 100 --keep-checkpoints 2 --log-every 25)

# watch PID FILE: a line each time, until it has ended or the session is over.
watch() {
    local pid=$1 file=$2 start=$SECONDS rss threads
    while ((SECONDS - start < session_s)) && [[ -d /proc/$pid ]]; do
        rss=$(awk '$1 == "VmRSS:" { print $2 }' "/proc/$pid/status" 2> /dev/null || true)
        threads=$(awk '$1 == "Threads:" { print $2 }' "/proc/$pid/status" 2> /dev/null || true)
        [[ -n $rss ]] && printf '%d\t%s\t%d\t%s\n' $((SECONDS - start)) "$rss" \
            "$(find "/proc/$pid/fd" -mindepth 1 2> /dev/null | wc -l)" "$threads" >> "$file"
        sleep $every_s
    done
}

# median FILE COLUMN FROM TO: of these lines.
median() {
    sed -n "$3,$4p" "$1" | cut -f "$2" | sort -n | sed -n "$((($4 - $3) / 2 + 1))p"
}

# judge FILE: the verdict on one session, as a line.
judge() {
    local n first span before after fds_before fds_after
    n=$(wc -l < "$1")
    first=$((n / 3 + 1)) span=$((n / 5))
    if ((span < 2)); then
        echo "FAILED: $n samples are too few"
        return 1
    fi
    before=$(median "$1" 2 $first $((first + span))) after=$(median "$1" 2 $((n - span)) "$n")
    fds_before=$(median "$1" 3 $first $((first + span))) fds_after=$(median "$1" 3 $((n - span)) "$n")
    awk -v b="$before" -v a="$after" -v fb="$fds_before" -v fa="$fds_after" -v n="$n" -v most=$most_growth_percent 'BEGIN {
        growth = 100 * (a - b) / b
        bad = growth > most || fa > fb
        printf "%s: memory %.1f -> %.1f MB (%+.2f %%), descriptors %d -> %d, %d samples\n", bad ? "FAILED" : "ok",
            b / 1024, a / 1024, growth, fb, fa, n
        exit bad
    }'
}

failed=0
for ((session = 1; session <= sessions; session++)); do
    log=$work/session-$session.log
    samples=$work/session-$session.tsv
    "$tandem" train "${options[@]}" > "$log" 2>&1 &
    pid=$!
    trap 'kill "$pid" 2> /dev/null || true' EXIT
    watch "$pid" "$samples"
    kill -TERM "$pid" 2> /dev/null || true
    code=0
    wait "$pid" || code=$?
    trap - EXIT
    if ((code != 128 + 15)); then
        echo "FAILED session $session ended with $code instead of 143: see $log"
        failed=1
    fi
    step=$(sed 's/[^0-9]//g' "$run/latest" 2> /dev/null || true)
    printf 'session %d, up to step %s: ' "$session" "${step:-?}"
    judge "$samples" || failed=1
done
exit $failed
