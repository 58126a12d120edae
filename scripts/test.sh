#!/usr/bin/env bash
# Builds Tandem and runs every check; ends with "N passed, N failed, N skipped", and 1 if any failed.
#
#   scripts/test.sh           everything: all builds, sanitizers, Vulkan validation, clang-tidy, installation, packages
#   scripts/test.sh --quick   the release build, the lints, the format, and its tests without the long ones
#   scripts/test.sh --deep    everything, clang's static analyzer over every file, and every test under ThreadSanitizer
#                             too: half an hour more
#   scripts/test.sh --drivers the release build, then the op suite, validation, training and speech on drivers that are
#                             no packages of Debian's: SwiftShader and Intel's CPU runtime, fetched into build/drivers
#                             (300 MB); skipped by name where they cannot be
#
# Each test of CTest counts, and each other stage counts as one. What a stage printed is in build/logs/.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

quick=false
drivers=()
tidy_checks=-clang-analyzer-*
threads_targets=threads_tests # what is built and run with ThreadSanitizer
threads_tests=(-L 'unit|threads|text|data|train|pipeline')
case "${1:-}" in
    "") ;;
    --quick) quick=true ;;
    --drivers) drivers=(swiftshader intel) ;;
    --deep)
        tidy_checks=
        threads_targets=all
        threads_tests=(-LE lint)
        ;;
    *)
        echo "usage: scripts/test.sh [--quick | --deep | --drivers]" >&2
        exit 2
        ;;
esac

scripts/setup.sh
jobs=$(nproc)
logs=build/logs
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
mkdir -p "$logs"

passed=0 failed=0 skipped=0

# report VERDICT NAME SECONDS [NOTE]
report() {
    printf '%-6s %-28s %4d s  %s\n' "$1" "$2" "$3" "${4:-}"
}

# judge NAME SECONDS CODE: counts one check; 77 means that it cannot be made here. Its output is shown only when it failed.
judge() {
    local name=$1 seconds=$2 code=$3 log=$logs/${1// /-}.log
    if ((code == 0)); then
        passed=$((passed + 1))
        report ok "$name" "$seconds"
    elif ((code == 77)); then
        skipped=$((skipped + 1))
        report skip "$name" "$seconds" "$(tail -n 1 "$log")"
    else
        failed=$((failed + 1))
        report FAILED "$name" "$seconds" "see $log"
        grep -m 40 'error:' "$log" || tail -n 40 "$log"
        return 1
    fi
}

# stage NAME COMMAND...: one check.
stage() {
    local name=$1 start=$SECONDS code=0
    shift
    "$@" > "$logs/${name// /-}.log" 2>&1 || code=$?
    judge "$name" $((SECONDS - start)) "$code"
}

# stage_beside NAME COMMAND NAME COMMAND: two checks at a time, of which the first keeps one core busy.
stage_beside() {
    local start=$SECONDS code=0 job
    "$2" > "$logs/${1// /-}.log" 2>&1 &
    job=$!
    stage "$3" "$4" || true
    wait "$job" || code=$?
    judge "$1" $((SECONDS - start)) "$code"
}

# The number that an attribute of a JUnit file's first element has.
attribute() {
    grep -m 1 -o "[[:space:]]$2=\"[0-9]*\"" "$1" | tr -dc '0-9'
}

# tests NAME PRESET CTEST-OPTION...: the tests of a build, each counted. One more at a time than there are cores, since some
# wait for simulated devices.
tests() {
    local name=$1 preset=$2 start=$SECONDS code=0 log junit total bad skip
    log=$logs/${name// /-}.log
    junit=$PWD/$logs/${name// /-}.xml
    shift 2
    rm -f -- "$junit"
    "${wrapper[@]}" ctest --preset "$preset" --parallel $((jobs + 1)) --output-junit "$junit" "$@" > "$log" 2>&1 || code=$?
    total=0 bad=1 skip=0
    if [[ -s $junit ]]; then
        total=$(attribute "$junit" tests) bad=$(attribute "$junit" failures) skip=$(attribute "$junit" skipped)
    fi
    if ((bad == 0 && (code != 0 || total == 0))); then bad=1; fi # CTest itself failed, or found nothing
    passed=$((passed + total - (bad < total ? bad : total) - skip))
    failed=$((failed + bad))
    skipped=$((skipped + skip))
    if ((bad > 0)); then
        report FAILED "$name" $((SECONDS - start)) "$bad of $total failed; see $log"
        tail -n 60 "$log"
    else
        report ok "$name" $((SECONDS - start)) "$total tests, $skip skipped"
    fi
    if ((skip > 0)); then grep -E 'Skipped$|\*\*\*Skipped' "$log" || true; fi
}

# caches PRESET [FROM]: the caches its tests start with, empty or those of another build.
caches() {
    rm -rf -- "build/$1/test-cache"
    mkdir -p "build/$1/test-cache"
    if [[ -n ${2:-} && -d build/$2/test-cache ]]; then cp -r -- "build/$2/test-cache/." "build/$1/test-cache"; fi
}

# build PRESET [TARGET]; SPIR-V is made once, by the release build.
build() {
    local shared=()
    if [[ $1 != release ]]; then shared=(-DTD_SPIRV_FROM="$PWD/build/release"); fi
    cmake --preset "$1" "${shared[@]}" && cmake --build --preset "$1" --parallel "$jobs" --target "${2:-all}"
}

format_check() {
    find src include tests docs -name '*.[ch]' -print0 | xargs -0 clang-format-14 --dry-run -Werror
}

# One file at a time: clang-tidy 14 carries what it knows of va_list over to the next file.
tidy_check() {
    find src -name '*.c' -print0 | sort -z |
        xargs -0 -P "$jobs" -n 1 clang-tidy-14 --quiet --checks="$tidy_checks" --warnings-as-errors='*' -p build/release
}

# The installed library, as a stranger's program sees it.
install_check() {
    local prefix=$scratch/prefix lib flags # all chained, since "set -e" does not reach into a stage
    cmake --install build/release --prefix "$prefix" &&
        lib=$(dirname "$(find "$prefix" -name 'libtandem.so')") &&
        read -ra flags < <(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs tandem) &&
        cc -std=c11 -Wall -Wextra -Werror docs/examples/two_devices.c "${flags[@]}" -o "$scratch/two_devices" &&
        TANDEM_CACHE_DIR=$scratch/cache LD_LIBRARY_PATH=$lib "$scratch/two_devices" cl:0.0 vk:0 &&
        cc -std=c11 -Wall -Wextra -Werror docs/examples/speak.c "${flags[@]}" -o "$scratch/speak" &&
        TANDEM_CACHE_DIR=$scratch/cache LD_LIBRARY_PATH=$lib "$scratch/speak" build/release/tests/voice.safetensors \
            "hello. how are you?" "$scratch/hello.raw" &&
        cmp "$scratch/hello.raw" build/release/tests/speak.raw && # of the same program, built with the library
        "$prefix/bin/tandem" --version
}

# Packages made twice, the second time as somebody elsewhere would.
package_check() {
    scripts/package.sh "$scratch/packages" &&
        TZ=Asia/Tokyo LC_ALL=C scripts/package.sh "$scratch/packages-again" &&
        python3 tests/packaging/check_packages.py "$scratch/packages" "$scratch/packages-again"
}

# Every check on drivers that are fetched; what cannot be fetched is skipped by name.
driver_checks() {
    local driver check
    for driver in "${drivers[@]}"; do
        stage "$driver install" scripts/drivers.sh "$driver" install || continue
        [[ -d build/drivers/$driver ]] || continue
        for check in ops validate train synth; do
            stage "$driver $check" scripts/drivers.sh "$driver" "$check" || true
        done
    done
}

# ThreadSanitizer of GCC 12 needs a memory layout that newer kernels' randomisation does not give.
fixed_layout=(setarch "$(uname -m)" -R)
"${fixed_layout[@]}" true 2> /dev/null || fixed_layout=()
wrapper=()
without_vulkan='two_pocl|ops_cl|sim_sim|device_(hazard|kernel_text|sim)' # tests that the validation layers see nothing of

if ((${#drivers[@]} > 0)); then
    stage "release build" build release && driver_checks
    echo "$passed passed, $failed failed, $skipped skipped"
    ((failed == 0))
    exit
fi
stage "format" format_check || true
if stage "release build" build release; then
    if $quick; then
        tests "quick tests" release -LE 'ops|faults|long' -E two_pocl # with the caches of the last run
    else
        caches release
        tests "release tests" release
        TANDEM_VALIDATION=1 tests "validation tests" release -L 'device|example|ops' -E "$without_vulkan"
        stage "install" install_check || true
        stage_beside "packages" package_check "clang-tidy" tidy_check || true
        stage "GPU gate" scripts/gpu_gate.sh --spirv build/release/src/kernels/spirv || true
        grep '^gpu_gate:' "$logs/GPU-gate.log" || true
    fi
fi
if ! $quick; then
    if stage "dev build" build dev; then
        caches dev release # drivers compile the kernels, which no sanitizer sees
        tests "dev tests" dev -LE lint
    fi
    if stage "tsan build" build tsan "$threads_targets"; then
        caches tsan release
        wrapper=("${fixed_layout[@]}")
        tests "tsan tests" tsan "${threads_tests[@]}"
    fi
fi

echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
