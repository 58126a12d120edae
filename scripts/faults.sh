#!/usr/bin/env bash
# The long fault tests, each printing how many moments were tried and what was lost (nothing may be): some hours.
#
#   scripts/faults.sh [MOMENTS]     so many kills, flipped bits and files cut short; 1000 if none is given
#
# Of calls on files, each fails; of allocations and calls into the drivers, those from every place in the program that
# they come from. TANDEM_FAULT_FRAMES=5 takes fewer places (tests/faults/places.h), TANDEM_FAULT_SEED other moments.
# Needs a release build (scripts/setup.sh, cmake --preset release, ninja).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

moments=${1:-1000}
build=build/release
if [[ ! $moments =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: scripts/faults.sh [MOMENTS]" >&2
    exit 2
fi
if [[ ! -x $build/tandem || ! -e $build/tests/libfault_preload.so || ! -x $build/tests/test_faults_journey ]]; then
    echo "$build has no tandem or no tests; build it first: cmake --preset release && cmake --build --preset release" >&2
    exit 2
fi
failed=0
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$PWD/$build/test-cache}
export TANDEM_STORE_BINARIES=1 # a start then takes a third of the time
export LP_NUM_THREADS=0        # lavapipe: so small kernels are done sooner without threads
if [[ -z ${TMPDIR:-} && -w /dev/shm ]]; then
    export TMPDIR=/dev/shm # thousands of runs that sync what they write
fi
walk_files() { # NAME MOMENTS
    TANDEM_FAULT_MOMENTS=$2 python3 "tests/faults/test_$1.py" "$build/tandem" "$build/tests/libfault_preload.so" || failed=1
}
walk_files kill "$moments"
walk_files files all
walk_files events "$moments"
for walk in journey parts; do
    TANDEM_FAULT_MOMENTS=places "$build/tests/test_faults_$walk" || failed=1
done
exit $failed
