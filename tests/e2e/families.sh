# Relatives of Llama go out under their names and come back with every byte, train on
# two ranks as on one; what transformers has no name for is refused.
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
    [ $status -eq 2 ] || die "tutti $*: status $status"
    [ "$(wc -l <err)" -eq 1 ] || die "tutti $*: $(cat err)"
    grep -q -- "$word" err || die "tutti $*: $(cat err)"
}

printf 'To be, or not to be, that is the question.\n%.0s' $(seq 40) >text
small="data=text data.path=text data.tokenizer=bytes seq=16 batch=4 train.steps=2
    model=llama model.layers=2 model.width=32 model.heads=4 model.kv_heads=2
    model.ff=48 model.context=64 threads=1"

# variant NAME ARCHITECTURE setting...
variant() {
    name=$1 architecture=$2
    shift 2
    # shellcheck disable=SC2086 # words are settings
    "$tutti" train $small "$@" run="$name" >log 2>&1 || die "$name: $(cat log)"
    "$tutti" export "$name" out="$name-hf" >out || die "export of $name"
    grep -q "\"$architecture\"" "$name-hf/config.json" ||
        die "$name: $(cat "$name-hf/config.json")"
    # Without config.yaml: what config.json says is enough.
    rm "$name-hf/config.yaml"
    "$tutti" import "$name-hf" out="$name-in" >out 2>err ||
        die "import of $name: $(cat err)"
    [ ! -s err ] || die "import of $name: $(cat err)"
    "$tutti" export "$name-in" out="$name-out" >out
    cmp "$name-hf/model.safetensors" "$name-out/model.safetensors" ||
        die "$name: other tensors"
    cmp "$name-hf/config.json" "$name-out/config.json" ||
        die "$name: another config.json"
    # What the model says is what it said: all settings came through.
    "$tutti" sample "$name" prompt='To be' tokens=10 temperature=0 >a.txt
    "$tutti" sample "$name-hf" prompt='To be' tokens=10 temperature=0 >b.txt
    cmp a.txt b.txt || die "$name: other text after export"
}

variant llama3 LlamaForCausalLM model.rope=llama3 model.rope_factor=8 \
    model.rope_context=32 model.theta=500 model.head=16
variant linear LlamaForCausalLM model.rope=linear model.rope_factor=4 model.tied=true
variant biases LlamaForCausalLM model.qkv_bias=true model.out_bias=true \
    model.mlp_bias=true
variant mistral MistralForCausalLM model.window=48
variant qwen2 Qwen2ForCausalLM model.qkv_bias=true
variant qwen3 Qwen3ForCausalLM model.qk_norm=true model.head=16 \
    model.rope=yarn model.rope_factor=4 model.rope_context=32
variant mixtral MixtralForCausalLM model.experts=4
"$tutti" inspect mixtral-hf >out
grep -q 'layers.1.block_sparse_moe.experts.3.w2.weight *F32 *\[32, 48\]' out ||
    die "experts are not one by one: $(cat out)"

# Room that Mixtral's experts always have: said where ours may have lacked it.
[ ! -s err ] || die "a note without a cause: $(cat err)"
for capacity in 0.5 2; do
    # shellcheck disable=SC2086 # words are settings
    "$tutti" train $small model.experts=4 model.capacity=$capacity \
        run="room-$capacity" >log 2>&1 || die "$(cat log)"
    "$tutti" export "room-$capacity" out="room-$capacity-hf" >out 2>err ||
        die "export with capacity $capacity: $(cat err)"
done
[ ! -s err ] || die "two of four experts, twice an equal share: $(cat err)"
"$tutti" export room-0.5 out=room-hf --json >out 2>err
grep -q 'model.capacity=0.5 left out' err || die "capacity: $(cat err)"
[ "$(wc -l <err)" -eq 1 ] || die "more than one note: $(cat err)"
python3 -c 'import json; json.load(open("out"))' || die 'a note in the JSON'
"$tutti" import room-hf out=room-in >out 2>err
grep -q 'model.capacity=0.5 left out' err || die "import: $(cat err)"

# Shards that have an expert each, as large models come.
python3 - <<'PYTHON'
import json, os, struct
data = open("mixtral-hf/model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header, body = json.loads(data[8:8 + n]), data[8 + n:]
header.pop("__metadata__", None)
os.mkdir("shards")
index = {}
for i, (name, t) in enumerate(header.items()):
    begin, end = t["data_offsets"]
    t["data_offsets"] = [0, end - begin]
    text = json.dumps({name: t}).encode()
    index[name] = "model-%05d.safetensors" % i
    with open("shards/" + index[name], "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + body[begin:end])
json.dump({"metadata": {}, "weight_map": index},
          open("shards/model.safetensors.index.json", "w"))
PYTHON
cp mixtral-hf/config.json mixtral-hf/tokenizer.json shards/
"$tutti" import shards out=shards-in >out 2>err || die "shards: $(cat err)"
cmp shards-in/model.safetensors mixtral-hf/model.safetensors ||
    die 'shards became other tensors'

# Two ranks compute what one does.
# shellcheck disable=SC2086 # words are settings
"$tutti" verify $small model.qk_norm=true model.qkv_bias=true model.out_bias=true \
    model.rope=llama3 model.rope_factor=8 model.rope_context=32 model.head=16 \
    mesh.tensor=2 -n 2 >out 2>&1 || die "verify: $(cat out)"
# shellcheck disable=SC2086 # words are settings
"$tutti" verify $small model.experts=4 mesh.expert=2 -n 2 >out 2>&1 ||
    die "verify of experts: $(cat out)"

# What would not be what it is called.
"$tutti" train data=text data.path=text model=gpt model.layers=1 model.width=16 \
    model.heads=2 model.experts=2 seq=8 batch=2 train.steps=1 run=moe >log 2>&1 ||
    die "$(cat log)"
refuses 'GPT-2 with experts' export moe out=moe-hf
[ ! -e moe-hf ] || die 'a refused export left a folder'
# shellcheck disable=SC2086 # words are settings
"$tutti" train $small model.qk_norm=true model.experts=2 run=odd >log 2>&1 ||
    die "$(cat log)"
refuses 'combines these settings' export odd out=odd-hf
# shellcheck disable=SC2086 # words are settings
refuses 'model.window=8' train $small model.window=8 run=narrow
