# A folder of others is a model: eval reads it, init.from takes its settings and its
# tokenizer, and what came with it is there again in an export.
# deadline: 240
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
cd "$folder"

die() {
    echo "$1"
    exit 1
}

# refuses WORD COMMAND...: exit status 2 and one line with WORD in it.
refuses() {
    word=$1
    shift
    status=0
    "$tutti" "$@" >out 2>err || status=$?
    [ $status -eq 2 ] || die "tutti $*: status $status, $(cat err)"
    [ "$(wc -l <err)" -eq 1 ] || die "tutti $*: $(cat err)"
    grep -q -- "$word" err || die "tutti $*: $(cat err)"
}

printf 'To be, or not to be, that is the question.\n%.0s' $(seq 40) >text
printf 'Whether it is nobler in the mind to suffer.\n%.0s' $(seq 10) >other
"$tutti" train data=text data.path=text data.val=other data.tokenizer=bytes seq=16 \
    batch=4 train.steps=5 model=llama model.layers=2 model.width=32 model.heads=4 \
    model.kv_heads=2 model.ff=48 model.context=64 model.theta=500 run=first \
    >log 2>&1 || die "training: $(cat log)"
"$tutti" export first out=hub >out || die 'export'
rm hub/config.yaml # as others have it

# ---- eval ----------------------------------------------------------------
value() { sed "s/.*\"$2\": \([^,}]*\).*/\1/" "$1"; }
"$tutti" eval first --json >want || die 'eval of a run'
"$tutti" import hub out=imported >out || die 'import'
for model in hub imported; do
    "$tutti" eval $model data=text data.path=other seq=16 batch=4 --json \
        >have 2>err || die "eval $model: $(cat err)"
    [ "$(value have loss)" = "$(value want loss)" ] ||
        die "eval $model: $(cat have), not $(cat want)"
    [ "$(value have targets)" = "$(value want targets)" ] || die "eval $model"
done
"$tutti" eval hub data=text data.path=other seq=16 batch=4 -n 2 >have 2>err ||
    die "eval on two ranks: $(cat err)"
grep -q "loss  *$(printf '%.4f' "$(value want loss)")" have || die "$(cat have)"
refuses 'data is not set' eval hub
"$tutti" sample hub prompt=To tokens=3 >out 2>err || die "sample: $(cat err)"

# ---- init.from -----------------------------------------------------------
text="data=text data.path=text batch=4 train.steps=1 seq=16"
# shellcheck disable=SC2086 # words are settings
"$tutti" train $text init.from=hub run=tuned >log 2>&1 || die "$(cat log)"
grep -q 'model: llama' tuned/config.yaml || die 'another model'
for line in 'model.layers: 2' 'model.theta: 500' 'model.vocab: 256' \
    'model.width: 32' 'data.tokenizer: hub/tokenizer.json'; do
    grep -qx "$line" tuned/config.yaml || die "no $line: $(cat tuned/config.yaml)"
done
grep -q 'lacks\|has no' log && die "$(cat log)"
# shellcheck disable=SC2086 # words are settings
"$tutti" train $text init.from=hub model=llama model.layers=2 data.tokenizer=bytes \
    model.deviation=0.5 run=same >log 2>&1 || die "the same settings: $(cat log)"
# shellcheck disable=SC2086 # words are settings
{
    refuses 'model.theta=1000 is not that of init.from=hub, which has 500' \
        train $text init.from=hub model.theta=1000 run=x
    refuses 'model.layers=3 is not that of' train $text init.from=hub \
        model.layers=3 run=x
    refuses 'model=gpt is not that of' train $text init.from=hub model=gpt run=x
    refuses 'model.layers=12 is not that of' train $text init.from=hub \
        model=llama-160m run=x
    refuses 'data.tokenizer=chars is not that of' train $text init.from=hub \
        data.tokenizer=chars run=x
}
# A file is weights alone.
# shellcheck disable=SC2086 # words are settings
refuses 'embed_tokens' train $text init.from=hub/model.safetensors model=llama \
    model.width=32 model.heads=4 model.kv_heads=2 model.ff=48 model.layers=2 run=x
# A run says what it is too, and its characters are the model's.
"$tutti" train data=text data.path=text model=gpt model.layers=1 model.width=16 \
    model.heads=2 seq=8 batch=2 train.steps=1 run=chars >log 2>&1 || die "$(cat log)"
printf 'to be or not\n%.0s' $(seq 40) >fewer
"$tutti" train data=text data.path=fewer seq=8 batch=2 train.steps=1 \
    init.from=chars run=on >log 2>&1 || die "from a run: $(cat log)"
grep -qx "$(grep model.vocab chars/config.yaml)" on/config.yaml ||
    die 'another vocabulary than the run'

# ---- what came with it ---------------------------------------------------
python3 - <<'PYTHON'
import json
config = json.load(open("hub/config.json"))
config.update(bos_token_id=3, eos_token_id=[7, 9], pad_token_id=11)
json.dump(config, open("hub/config.json", "w"))
json.dump({"eos_token_id": [7, 9, 10], "temperature": 0.6, "do_sample": True},
          open("hub/generation_config.json", "w"))
json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "\v",
           "chat_template": "{{ messages }}"},
          open("hub/tokenizer_config.json", "w"))
json.dump({"eos_token": "\t"}, open("hub/special_tokens_map.json", "w"))
open("hub/chat_template.jinja", "w").write("{% for m in messages %}\u00e9{{ m }}\n")
PYTHON
same() {
    for name in generation_config.json tokenizer_config.json tokenizer.json \
        special_tokens_map.json chat_template.jinja; do
        cmp "hub/$name" "$1/$name" || die "$1: another $name"
    done
    grep -q '"bos_token_id": 3, "eos_token_id": \[7, 9\], "pad_token_id": 11' \
        "$1/config.json" || die "$1: $(cat "$1/config.json")"
}
rm -r imported
"$tutti" import hub out=imported >out || die 'import'
same imported
"$tutti" export imported out=again >out || die 'export of an import'
same again
# shellcheck disable=SC2086 # words are settings
"$tutti" train $text init.from=again run=kept >log 2>&1 || die "$(cat log)"
mv again away # the run has all it needs
"$tutti" export kept out=kept-hf >out || die 'export of a run'
same kept-hf
"$tutti" export kept/checkpoints/step-00000001 out=kept-hf2 >out
same kept-hf2
sed -i 's/7, 9, 10/'"$(seq -s , 0 255)"'/' hub/generation_config.json
# shellcheck disable=SC2086 # words are settings
"$tutti" train $text init.from=hub run=ends >log 2>&1 || die "$(cat log)"
"$tutti" sample ends prompt=To tokens=5 --json >out
grep -q '"tokens": 0, "ended": true' out || die "a run forgot what ends a text"
