#!/usr/bin/env bash
# Compiles every kernel for NVIDIA, AMD and Intel GPUs that are not here, and judges registers, spills, local memory and
# occupancy; --install fetches the compilers. See --help and docs/gpu_portability.md.
set -euo pipefail
exec python3 "$(dirname -- "${BASH_SOURCE[0]}")/../tests/gpu_gate/gate.py" "$@"
