#!/usr/bin/env bash
# Runs small cases of every op under oclgrind, which interprets kernels and reports data races and accesses outside of a
# buffer.
#
#   scripts/oclgrind.sh [OP...]      ops as `test_ops list` names them; without names, all
#
# Each op runs by itself in class CPU and in class GPU, with at most SECONDS_PER_OP (120) seconds. Of an op the cases
# with at most 3,000 words in all buffers are taken; where there is none, up to 12,000, 40,000 or 160,000. A line says
# ok, REPORT (oclgrind complained), wrong (a result was) or time (the limit was reached); what was printed is in
# build/oclgrind/OP.CLASS.log. Last are, where all ops ran, the kernels that no case launched, and `N passed, N failed,
# N skipped`, where an op without a case that small is skipped. Ends with 1 if anything failed. Needs a release build and the
# package oclgrind.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

limits=(3000 12000 40000 160000)
limit_s=${SECONDS_PER_OP:-120}
tests=build/release/tests/test_ops
work=build/oclgrind
if [[ ${1:-} == -* ]]; then
    echo "usage: scripts/oclgrind.sh [OP...]" >&2
    exit 2
fi
library=
for candidate in /usr/lib/oclgrind/liboclgrind-rt.so /usr/lib/*/oclgrind/liboclgrind-rt.so; do
    [[ -e $candidate ]] && library=$candidate && break
done
if [[ -z $library ]]; then
    echo "oclgrind.sh: oclgrind is missing; install it: sudo apt-get install oclgrind" >&2
    exit 2
fi
if [[ ! -x $tests ]]; then
    echo "$tests is missing; build it first: cmake --preset release && cmake --build --preset release" >&2
    exit 2
fi
rm -rf -- "$work"
mkdir -p "$work"

# The program opens oclgrind's library by itself, in place of the loader that would offer other drivers too. Optimised
# code holds instructions that oclgrind 21.10 misreads, and it does not know prefetches, which are only hints.
export TANDEM_OPENCL_LIBRARY=$library TANDEM_VULKAN_LIBRARY=/nonexistent TANDEM_TEST_ALLOW_MISSING=1
export TANDEM_CACHE_DIR=$PWD/$work/cache
export OCLGRIND_DATA_RACES=1 OCLGRIND_BUILD_OPTIONS='-cl-opt-disable -D__builtin_prefetch(x)='

# The words of each op's smallest case.
declare -A least_of
while IFS=$'\t' read -r op words; do
    least_of[$op]=$words
done < <("$tests" list | awk '{
    op = substr($0, 1, 24); words = substr($0, 25, 9) + 0 # a name may be two words
    sub(/ +$/, "", op)
    if (!(op in least) || words < least[op]) least[op] = words
} END { for (op in least) print op "\t" least[op] }')
if (($# > 0)); then
    ops=("$@")
else
    mapfile -t ops < <(printf '%s\n' "${!least_of[@]}" | sort)
fi

# limit_of OP: the first limit that leaves a case; nothing if none does.
limit_of() {
    local limit
    for limit in "${limits[@]}"; do
        ((${least_of["$1"]:-limit + 1} <= limit)) && echo "$limit" && return
    done
    return 0
}

# verdict CODE LOG
verdict() {
    if (($1 == 124)); then
        echo time
    elif grep -qE '^(Invalid|Unaligned|Uninitialized|Read-write data race|Write-write data race|OCLGRIND)|data race|Work-group divergence' "$2"; then
        echo REPORT
    elif (($1 != 0)); then
        echo wrong
    else
        echo ok
    fi
}

passed=0 failed=0 skipped=0
for op in "${ops[@]}"; do
    words=$(limit_of "$op")
    for class in cpu gpu; do
        if [[ -z $words ]]; then
            printf '%-8s %-20s %s: no case is small enough\n' skip "$op" $class
            skipped=$((skipped + 1))
            continue
        fi
        log=$work/${op// /_}.$class.log code=0 start=$SECONDS
        timeout "$limit_s" "$tests" support -o "=$op" -s "$words" -c $class > "$log" 2>&1 || code=$?
        result=$(verdict $code "$log")
        printf '%-8s %-20s %s, %s cases of at most %s words, %d s\n' "$result" "$op" $class \
            "$(sed -n 's/^test_ops support: \([0-9]*\) passed.*/\1/p' "$log")" "$words" $((SECONDS - start))
        if [[ $result == ok ]]; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            grep -m 4 -E 'data race|Invalid|OCLGRIND|Kernel: |FAIL' "$log" | sed 's/^/         /' || true
        fi
    done
done
for class in $( (($# == 0)) && echo cpu gpu); do
    awk '/^cases passed on/ { table = 1; next } /^test_ops/ { table = 0 } table { launched[$1] += $2 }
         END { for (name in launched) if (!launched[name]) print name }' "$work"/*.$class.log 2> /dev/null | sort |
        tr '\n' ' ' | sed "s/^./not launched in class $class: &/; s/ \$/\n/"
done
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
