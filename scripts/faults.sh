#!/usr/bin/env bash
# The fault tests with as many moments as wanted, each printing how many were tried and what was lost (nothing may be).
#
#   scripts/faults.sh [MOMENTS]     1000 if none is given; some seconds each, for each of the walks
#
# TANDEM_FAULT_SEED chooses other moments. Needs a release build (scripts/setup.sh, cmake --preset release, ninja).
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
export TANDEM_FAULT_MOMENTS=$moments
for walk in kill files events; do
    python3 "tests/faults/test_$walk.py" "$build/tandem" "$build/tests/libfault_preload.so" || failed=1
done
for walk in journey parts; do
    "$build/tests/test_faults_$walk" || failed=1
done
exit $failed
