#!/usr/bin/env bash
# Every comparison of Tandem's speed with a peer, in alternating runs: one page, one JSON, and what earlier commits had.
#   scripts/bench_all.sh [--short] [--only NAME,..] [--out FOLDER] [--write-docs]
# --short: fewer rounds, and of the quick comparisons alone.
# Needs a Python with PyTorch (and transformers for `decode`): $TANDEM_TORCH_PYTHON, or python3. What a comparison
# needs and does not find is told, and the others go on. Let nothing else work meanwhile.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
case ${1:-} in
-h | --help)
    sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac
exec "${TANDEM_TORCH_PYTHON:-python3}" scripts/bench_all.py "$@"
