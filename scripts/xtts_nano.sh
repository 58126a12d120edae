#!/usr/bin/env bash
# An XTTS from nothing, every part of it: a DVAE, a GPT over its codes, and a vocoder on what the GPT thinks; of size
# nano, on the recordings of scripts/make_demo_data.sh.
#   scripts/xtts_nano.sh DATA FOLDER [MINUTES]
# DATA is an LJSpeech folder, FOLDER gets the runs and voice.safetensors, MINUTES is what training takes in all (30).
# What is done is not done again. TANDEM names the program if it is not build/release/tandem.
set -euo pipefail

case ${1:-} in
-h | --help)
    sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac
(($# == 2 || $# == 3)) || {
    echo 'xtts_nano: name the recordings and a folder; --help tells more' >&2
    exit 2
}
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
data=$1 out=$2 minutes=${3:-30}
tandem=${TANDEM:-$here/../build/release/tandem}
mkdir -p -- "$out"

# Letters, each a token: words are few, and pieces of them would be learnt by heart.
python3 - > "$out/vocab.json" << 'END'
import json
special = ["[STOP]", "[UNK]", "[SPACE]", "[en]", "[START]"]
pieces = special + list("!',-.?:;abcdefghijklmnopqrstuvwxyz")
added = [dict(id=i, content=s, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
         for i, s in enumerate(special)]
model = dict(type="BPE", dropout=None, unk_token="[UNK]", continuing_subword_prefix=None, end_of_word_suffix=None,
             fuse_unk=False, vocab={p: i for i, p in enumerate(pieces)}, merges=[])
print(json.dumps(dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
                      pre_tokenizer=dict(type="Whitespace"), post_processor=None, decoder=None, model=model)))
END

# A share of the minutes for each part. A training that has ended by itself leaves what it said at its end.
train() {
    local name=$1 share=$2
    shift 2
    [[ -f $out/$name.txt ]] && return
    "$tandem" train --config "$here/../configs/xtts_nano.ini" --train-data "$data" --checkpoint-dir "$out/$name" \
        --max-minutes "$(awk "BEGIN { print $minutes * $share }")" "$@" > "$out/$name.part"
    mv -- "$out/$name.part" "$out/$name.txt"
}

train dvae 0.1 --family dvae --set model.codes=256 --set model.hidden=64 --lr 0.001 --batch-size 8 --max-steps 3000
train gpt 0.6 --init-from "$out/dvae/best.safetensors" --tokenizer "$out/vocab.json" --set model.dvae_hidden=64 \
    --lr 0.001 --batch-size 8 --max-steps 20000
train vocoder 0.3 --init-from "$out/gpt/best.safetensors" --set xtts.tune=vocoder --set xtts.adversarial_start=1000 \
    --lr 0.001 --batch-size 8 --max-steps 10000
cp -- "$out/vocoder/best.safetensors" "$out/voice.safetensors"
