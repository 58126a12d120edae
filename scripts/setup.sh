#!/usr/bin/env bash
# Installs the Debian packages of scripts/packages.txt that are missing; silent where none is. On a system
# without apt-get it installs nothing, and ends with 1 if a tool or library that the build needs is not there.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
mapfile -t packages < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$here/packages.txt")

die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# What the build calls, for systems whose packages have other names.
check_tools() {
    local missing=() tool module
    for tool in cc cmake ninja pkg-config git glslc spirv-val python3; do
        command -v "$tool" > /dev/null || missing+=("$tool")
    done
    if command -v pkg-config > /dev/null; then
        for module in clblast inih libxxhash icu-i18n libexttextcat libcjson sndfile soxr cmocka OpenCL vulkan; do
            pkg-config --exists "$module" || missing+=("$module (library and headers)")
        done
    fi
    ((${#missing[@]} == 0)) && return
    printf 'setup: missing: %s\n' "${missing[@]}" >&2
    die "this system has no apt-get; install the above with its own package manager (Debian's names: ${packages[*]})"
}

command -v apt-get > /dev/null || {
    check_tools
    exit 0
}

declare -A installed=()
while read -r name state; do
    [[ $state == installed ]] && installed[$name]=1
done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2> /dev/null || true)
missing=()
for name in "${packages[@]}"; do
    [[ -n ${installed[$name]:-} ]] || missing+=("$name")
done
((${#missing[@]} == 0)) && exit 0

printf 'setup: installing %s\n' "${missing[*]}" >&2
by_hand="apt-get update && apt-get install --no-install-recommends ${missing[*]}"
as_root=(env DEBIAN_FRONTEND=noninteractive)
if ((EUID != 0)); then
    command -v sudo > /dev/null || die "not root and no sudo; run as root: $by_hand"
    as_root=(sudo "${as_root[@]}")
fi
install=("${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}")

# The package lists may be missing or old: fetch them only when the first try fails.
"${install[@]}" > /dev/null 2>&1 || {
    "${as_root[@]}" apt-get update -qq && "${install[@]}" > /dev/null
} || die "apt-get failed; run as root: $by_hand"
