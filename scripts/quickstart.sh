#!/usr/bin/env bash
# From a fresh clone to a checked pair of devices: installs what is missing, builds, lists the devices and
# validates the ones Tandem would choose.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

tandem=build/release/tandem

scripts/setup.sh
echo "Building ..."
log=$(mktemp)
trap 'rm -f -- "$log"' EXIT
{ cmake --preset release && cmake --build --preset release --target tandem_program; } > "$log" 2>&1 || {
    cat "$log" >&2
    echo "quickstart: the build failed; the compiler's words are above" >&2
    exit 1
}

echo
"$tandem" devices
echo
"$tandem" validate
cat << END

All is well. Next:
  $tandem validate --data-gpu 0 --model-gpu 1    any two devices of the list, data on one and model on the other
  $tandem --help                                 every command
  scripts/test.sh --quick                        the tests
  docs/devices.md                                more drivers, selectors, troubleshooting
END
