#!/usr/bin/env bash
# Which statements of src/ the tests run: builds with gcov, runs the tests, prints the share in total, of each folder and of the
# worst files. Ends with 1 below 85 %.
#
#   scripts/coverage.sh                 all tests but the lints
#   scripts/coverage.sh CTEST-OPTION... the tests those choose, such as -L unit
#   scripts/coverage.sh --count         none: what the runs before have counted
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

build=build/coverage
if [[ ${1:-} != --count ]]; then
    cmake --preset coverage > /dev/null
    cmake --build --preset coverage
    find "$build" -name '*.gcda' -delete
    if (($# == 0)); then set -- -LE lint; fi
    ctest --preset coverage --parallel "$(nproc)" "$@" || echo "coverage.sh: tests failed; what they ran is counted all the same" >&2
fi
exec python3 tests/coverage/summarize.py "$build" 85
