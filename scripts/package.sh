#!/usr/bin/env bash
# Makes the Debian package and the tarball, from a release build:
#
#   scripts/package.sh [FOLDER]           into FOLDER (build/packages), with their SHA-256
#
# The same commit gives the same bytes, wherever and whenever it is built with the same compiler: see
# scripts/cmake/packaging.cmake.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

out=$(realpath -m -- "${1:-build/packages}")
if [[ ${1:-} == -* || $# -gt 1 ]]; then
    echo "usage: scripts/package.sh [FOLDER]" >&2
    exit 2
fi
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || echo 0)}
umask 022
cmake --preset release > /dev/null
cmake --build --preset release --target tandem_program
mkdir -p -- "$out"
(cd build/release && cpack -B "$out" > cpack.log) || {
    cat build/release/cpack.log >&2
    exit 1
}
rm -rf -- "$out/_CPack_Packages"
cd -- "$out"
ls -l -- tandem*."deb" tandem*.tar.gz
cat -- tandem*.sha256
