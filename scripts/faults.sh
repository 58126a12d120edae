#!/usr/bin/env bash
# The fault tests with as many moments as wanted, each printing how many were tried and what was lost (nothing may be).
#
#   scripts/faults.sh [MOMENTS]     of the walks over files, 1000 if none is given: some seconds each
#
# Allocations and calls into the drivers are walked from every place in the program that they come from.
# TANDEM_FAULT_FRAMES=5 takes fewer places (tests/faults/places.h), TANDEM_FAULT_SEED other moments.
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
for walk in kill files events; do
    TANDEM_FAULT_MOMENTS=$moments python3 "tests/faults/test_$walk.py" "$build/tandem" "$build/tests/libfault_preload.so" || failed=1
done
if [[ -z ${TMPDIR:-} && -w /dev/shm ]]; then
    export TMPDIR=/dev/shm # thousands of runs that sync what they write
fi
for walk in journey parts; do
    TANDEM_FAULT_MOMENTS=places "$build/tests/test_faults_$walk" || failed=1
done
exit $failed
