#!/usr/bin/env bash
# Runs the program on a driver that is not among the packages: SwiftShader (Vulkan, from Debian's chromium-common) or
# Intel's CPU runtime (OpenCL, from PyPI; its licence is Intel's). Nothing is installed outside of build/drivers.
#
#   scripts/drivers.sh swiftshader|intel install   fetches it; ends with 77 and the reason where that cannot be done
#   scripts/drivers.sh swiftshader|intel CHECK     ops: the op suite; validate; train: 30 steps, which must learn;
#                                                  synth: the voice of `train` speaks
#   scripts/drivers.sh swiftshader|intel run COMMAND...
#                                                  any command with that driver alone, as in: run tandem devices
#
# Needs the release build. `scripts/test.sh --drivers` makes all of them.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

driver=${1:-}
action=${2:-}
home=$PWD/build/drivers/$driver
tandem=build/release/tandem
data=build/drivers/data
run=$home/run

# Says why something cannot be made here; what was half fetched goes.
skip() {
    if [[ $action == install ]]; then rm -rf -- "$home"; fi
    printf '%s: %s\n' "$driver" "$*"
    exit 77
}

# ---------------------------------------------------------------- fetching

install_swiftshader() {
    local package
    [[ -e $home/vk_swiftshader_icd.json ]] && return
    command -v apt-get > /dev/null || skip "chromium-common can only be fetched with apt-get"
    mkdir -p "$home/package"
    (cd "$home/package" && apt-get download chromium-common) || skip "apt-get cannot download chromium-common"
    package=$(find "$home/package" -name 'chromium-common_*.deb' | sort | tail -n 1)
    dpkg -x "$package" "$home/package"
    cp "$home"/package/usr/lib/chromium/libvk_swiftshader.so "$home" || skip "chromium-common has no SwiftShader any more"
    cp "$home"/package/usr/lib/chromium/vk_swiftshader_icd.json "$home"
    rm -rf -- "$home/package"
}

install_intel() {
    local library
    [[ -e $home/icd/intel.icd ]] && return
    [[ $(uname -m) == x86_64 ]] || skip "Intel's runtime is for x86-64 only"
    mkdir -p "$home/icd"
    python3 -m venv "$home/venv" || skip "python3-venv is not installed"
    "$home/venv/bin/pip" install --quiet intel-opencl-rt intel-cmplr-lib-rt tbb || skip "PyPI cannot be reached"
    library=$(find "$home/venv" -name libintelocl.so | head -n 1)
    [[ -n $library ]] || skip "the package has no libintelocl.so"
    printf '%s\n' "$library" > "$home/icd/intel.icd" # that of the package holds a placeholder
}

# ---------------------------------------------------------------- running

# The driver alone, of its API; the other API stays as it is.
use_driver() {
    export TANDEM_CACHE_DIR=$home/cache TANDEM_TEST_ALLOW_MISSING=1
    case $driver in
    swiftshader)
        selector=vk:swiftshader.0
        export VK_ICD_FILENAMES=$home/vk_swiftshader_icd.json
        ;;
    intel)
        selector=cl:intel.0
        OCL_ICD_VENDORS=$home/icd/
        LD_LIBRARY_PATH=$(find "$home/venv" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
        export OCL_ICD_VENDORS LD_LIBRARY_PATH
        ;;
    esac
}

make_data() {
    [[ -e $data/metadata.csv ]] && return
    head -n 24 scripts/demo_sentences.txt > build/drivers/sentences.txt
    scripts/make_demo_data.sh "$data" --sentences build/drivers/sentences.txt
}

# 30 steps of the smallest model; the loss of the last must be below that of the first.
train() {
    make_data
    rm -rf -- "$run"
    "$tandem" train --model-size pico --train-data "$data" --checkpoint-dir "$run" --model-device "$selector" \
        --batch-size 2 --max-steps 30 --lr 0.002 --warmup-steps 5 --seed 3 --log-every 1 --val-every 30 --json > "$run.jsonl"
    python3 - "$run.jsonl" << 'END'
import json, sys
losses = [e["loss"] for e in map(json.loads, open(sys.argv[1])) if e["event"] == "step"]
print(f"loss {losses[0]:.4f} to {losses[-1]:.4f} in {len(losses)} steps")
sys.exit(0 if len(losses) == 30 and losses[-1] < 0.9 * losses[0] else "training does not learn")
END
}

synth() {
    [[ -e $run/best.safetensors ]] || skip "there is no voice; run the check train first"
    "$tandem" synth --checkpoint "$run/best.safetensors" --device "$selector" --text "We left the camera under the bridge." \
        -o "$home/speech.wav" && [[ $(stat -c %s "$home/speech.wav") -gt 1000 ]]
}

case $driver in
swiftshader | intel) ;;
*)
    sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
if [[ $action == install ]]; then
    "install_$driver"
    exit
fi
[[ -d $home ]] || skip "not fetched yet: scripts/drivers.sh $driver install"
use_driver
case $action in
ops) build/release/tests/test_ops test -d "$selector" ;;
validate) "$tandem" validate --data-device "$selector" --model-device "$selector" --allow-same-device ;;
train) train ;;
synth) synth ;;
run) "${@:3}" ;;
*)
    printf 'drivers: there is no check "%s"\n' "$action" >&2
    exit 2
    ;;
esac
