#!/usr/bin/env bash
# Fuzzes every reader of files from elsewhere with libFuzzer, under AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   scripts/fuzz.sh MINUTES [TARGET...]   MINUTES for each of the targets; without names, all of tests/fuzz
#
# Starts with tests/fuzz/corpus/TARGET; what it learns stays in build/fuzz/corpus/TARGET for the next time, what it
# finds is in build/fuzz/findings. A finding belongs, once corrected, into tests/fuzz/corpus, where the usual tests
# run it for ever. Ends with 1 if there was a finding.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

if (($# < 1)) || ! [[ $1 =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
    echo "usage: scripts/fuzz.sh MINUTES [TARGET...]" >&2
    exit 2
fi
seconds=$(awk -v m="$1" 'BEGIN { printf "%d", m * 60 }')
shift
targets=("$@")
if ((${#targets[@]} == 0)); then
    for source in tests/fuzz/fuzz_*.c; do
        name=${source##*/fuzz_}
        targets+=("${name%.c}")
    done
fi
for target in "${targets[@]}"; do
    if [[ ! -f tests/fuzz/fuzz_$target.c ]]; then
        echo "fuzz.sh: there is no target '$target'; those of tests/fuzz: $(cd tests/fuzz && echo fuzz_*.c)" >&2
        exit 2
    fi
done

cmake --preset fuzz > /dev/null
cmake --build --preset fuzz

root=$PWD/build/fuzz
findings=$root/findings
mkdir -p "$findings"
failed=0
for target in "${targets[@]}"; do
    log=$findings/$target.log
    mkdir -p "$root/corpus/$target"
    verdict=ok
    UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=allocator_may_return_null=1 \
        LSAN_OPTIONS=suppressions=tests/sanitizers/leaks.supp:print_suppressions=0 \
        "$root/tests/fuzz_$target" -max_total_time="$seconds" -max_len=4096 -timeout=100 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$findings/$target-" \
        "$root/corpus/$target" "tests/fuzz/corpus/$target" > "$log" 2>&1 || verdict=FOUND
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    covered=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | tr -dc '0-9' || true)
    printf '%-6s %-16s %5d s %10s inputs, %6s places reached\n' "$verdict" "$target" "$seconds" "${runs:-?}" "${covered:-?}"
    if [[ $verdict != ok ]]; then
        failed=1
        grep -E -m 3 'ERROR:|SUMMARY:|Test unit written' "$log" || tail -n 20 "$log"
    fi
done
exit $failed
