#!/usr/bin/env bash
# An XTTS from nothing, every part of it: a DVAE, a GPT over its codes, and a vocoder on what the GPT thinks; of size
# nano, on 4000 sentences of the grammar of scripts/demo_sentences.txt, which espeak-ng speaks. Then a recogniser tells
# how many words of 40 sentences that were not among them it mistakes (scripts/evaluate_wer.sh). Last, the voice is
# fine-tuned to another speaker, and where the judges of scripts/evaluate.sh are installed, they tell how often it is
# nearer to him.
#   scripts/xtts_nano.sh FOLDER
# FOLDER gets the recordings (700 MB), the runs, voice.safetensors, wer.txt, bert.safetensors and nearer.txt. What is done
# is not done again. TANDEM names the program if it is not build/release/tandem.
set -euo pipefail

case ${1:-} in
-h | --help)
    sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac
(($# == 1)) || {
    echo 'xtts_nano: name a folder; --help tells more' >&2
    exit 2
}
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
out=$1
export TANDEM=${TANDEM:-$here/../build/release/tandem}
mkdir -p -- "$out"

# With the 500 that are there, the judge's grammar is known; those that it will speak are left out.
if [[ ! -f $out/data/metadata.csv ]]; then
    { cat -- "$here/demo_sentences.txt" && python3 "$here/demo_grammar.py" 3500; } > "$out/sentences.txt"
    "$here/make_demo_data.sh" "$out/data" --sentences "$out/sentences.txt"
fi

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

# The vocoder hears recordings before it learns, so it gets fewer.
if [[ ! -d $out/few ]]; then
    mkdir -- "$out/few"
    ln -s ../data/wavs "$out/few/wavs"
    head -n 800 "$out/data/metadata.csv" > "$out/few/metadata.csv"
fi

# A training that has ended by itself leaves what it said at its end.
train() {
    local name=$1 recordings=$2
    shift 2
    [[ -f $out/$name.txt ]] && return
    "$TANDEM" train --config "$here/../configs/xtts_nano.ini" --train-data "$out/$recordings" \
        --checkpoint-dir "$out/$name" "$@" > "$out/$name.part"
    mv -- "$out/$name.part" "$out/$name.txt"
}

train dvae data --family dvae --set model.codes=256 --set model.hidden=128 --lr 0.002 --batch-size 8 --max-steps 2500
train gpt data --init-from "$out/dvae/best.safetensors" --tokenizer "$out/vocab.json" \
    --lr 0.002 --batch-size 16 --max-steps 1800
train vocoder few --init-from "$out/gpt/best.safetensors" --set xtts.tune=vocoder --set xtts.loss_mel=2 \
    --lr 0.001 --batch-size 4 --max-steps 2500
# The last one: what a vocoder is validated by is mostly how it does in crops of near silence, which tells little.
cp -- "$out/vocoder/checkpoint-2500.safetensors" "$out/voice.safetensors"
[[ -f $out/wer.txt ]] || {
    "$here/evaluate_wer.sh" "$out/voice.safetensors" \
        --synth "--language en --reference $out/data/wavs/demo0001.wav" > "$out/wer.part"
    mv -- "$out/wer.part" "$out/wer.txt"
}
cat -- "$out/wer.txt"

[[ -f $out/bert/metadata.csv ]] || "$here/make_demo_data.sh" "$out/bert" --voice en-us+m7
train bert_gpt bert --init-from "$out/voice.safetensors" --set xtts.tune=full \
    --lr 0.0005 --batch-size 16 --max-steps 300
train bert_vocoder bert --init-from "$out/bert_gpt/best.safetensors" --set xtts.tune=vocoder --set xtts.loss_mel=2 \
    --lr 0.0005 --batch-size 4 --max-steps 600
cp -- "$out/bert_vocoder/checkpoint-600.safetensors" "$out/bert.safetensors"
judges=$here/../build/evaluate-judges/venv/bin/python
[[ -x $judges ]] || {
    echo 'xtts_nano: without the judges of scripts/evaluate.sh, likeness to the speaker is not told' >&2
    exit 0
}
OPENBLAS_NUM_THREADS=1 "$judges" "$here/evaluate_nearer.py" "$out/bert.safetensors" "$out/bert" "$out/data" \
    --synth "--language en --reference $out/bert/wavs/demo0001.wav" | tee "$out/nearer.txt"
