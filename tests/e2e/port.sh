# Models go out and come back: import, export, inspect; every tensor keeps its bytes.
# deadline: 240
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
examples=$PWD/examples
tutti=$(realpath "$TUTTI")
cd "$folder"

die() {
    echo "$1"
    exit 1
}

# The bytes of every tensor of a safetensors file, by plain name.
hashes() {
    python3 - "$1" <<'PYTHON'
import hashlib, json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])
header.pop("__metadata__", None)
for name in sorted(header):
    begin, end = header[name]["data_offsets"]
    digest = hashlib.sha256(data[8 + n + begin:8 + n + end]).hexdigest()
    print(name.removeprefix("transformer."), header[name]["dtype"],
          header[name]["shape"], digest)
PYTHON
}

# The same file with the names of the hub: no prefix, and masks beside.
strip_prefix() {
    python3 - "$1" "$2" <<'PYTHON'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header, body = json.loads(data[8:8 + n]), data[8 + n:]
header.pop("__metadata__", None)
renamed = {k.removeprefix("transformer."): v for k, v in header.items()}
mask = bytes(4 * 16)
renamed["h.0.attn.bias"] = {"dtype": "F32", "shape": [1, 1, 4, 4],
                            "data_offsets": [len(body), len(body) + len(mask)]}
text = json.dumps(renamed).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + body + mask)
PYTHON
}

"$tutti" train "$examples/gpt-tiny.yaml" train.steps=2 data=text \
    data.path="$examples/gpt-tiny.yaml" model.vocab=0 >/dev/null 2>&1 &&
    die 'a vocabulary of nothing was taken'
printf 'To be, or not to be, that is the question.\n%.0s' $(seq 40) >text
"$tutti" train "$examples/gpt-tiny.yaml" train.steps=2 data=text \
    data.path=text model.vocab=64 model.bias=true run=gpt >log 2>&1 ||
    die "training: $(cat log)"

"$tutti" export gpt out=hf >out || die 'export'
for name in model.safetensors config.json tokenizer.json config.yaml \
    tokenizer_config.json; do
    [ -s hf/$name ] || die "the export has no $name"
done
hashes gpt/checkpoints/step-00000002/model.safetensors >want
hashes hf/model.safetensors | diff want - || die 'export changed tensors'

# With and without the prefix, with and without config.json.
strip_prefix hf/model.safetensors plain.safetensors
"$tutti" import plain.safetensors config=hf/config.json out=again >out ||
    die 'import of a file without the prefix'
hashes again/model.safetensors | diff want - || die 'import changed tensors'
"$tutti" import plain.safetensors out=guessed model.heads=4 >out ||
    die 'import without config.json'
grep -qx 'model.layers: 2' guessed/config.yaml || die 'layers were not seen'
mkdir hub
cp plain.safetensors hub/model.safetensors
cp hf/config.json hf/tokenizer.json hub/
"$tutti" import hub out=hub-in >out || die 'import of a folder'
"$tutti" export hub-in out=hub-out >out
hashes hub-out/model.safetensors | diff want - || die 'there and back differs'
cmp hub/tokenizer.json hub-out/tokenizer.json || die 'another tokenizer'

# llm.c, in fp32 and bf16.
"$tutti" export hf out=model.bin format=llmc >out || die 'export for llm.c'
"$tutti" inspect model.bin | grep -q 'a model of llm.c' || die 'inspect llm.c'
"$tutti" import model.bin out=llmc >out || die 'import from llm.c'
hashes llmc/model.safetensors | diff want - || die 'llm.c changed tensors'
"$tutti" export hf out=half.bin format=llmc precision=bf16 >out
[ "$(wc -c <half.bin)" -lt "$(wc -c <model.bin)" ] || die 'bf16 is no smaller'

# What was imported trains, and writes.
"$tutti" train "$examples/gpt-tiny.yaml" train.steps=1 data=text \
    data.path=text data.tokenizer=hf/tokenizer.json model.vocab=64 \
    model.bias=true init.from=again run=on >log 2>&1 ||
    die "init.from: $(cat log)"
"$tutti" sample hub-in prompt=To tokens=5 >out 2>err || die "sample: $(cat err)"

# Images: ONNX.
"$tutti" train "$examples/resnet-tiny.yaml" train.steps=2 run=resnet \
    >log 2>&1 || die "training: $(cat log)"
"$tutti" export resnet out=resnet.onnx format=onnx >out || die 'export to ONNX'
grep -aq BatchNormalization resnet.onnx || die 'no batch norm in the ONNX file'

# inspect, and errors.
"$tutti" inspect gpt | grep -q 'checkpoint of step 2' || die 'inspect a run'
"$tutti" inspect hf/tokenizer.json | grep -q tokenizer || die 'inspect tokenizer'
"$tutti" inspect hf/model.safetensors --json | python3 -m json.tool >/dev/null ||
    die 'inspect --json'

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
refuses 'out=' export gpt

# A run's folder is no place for an export, nor is the model's own.
cp gpt/config.yaml config.before
for out in gpt gpt/checkpoints gpt/checkpoints/step-00000002; do
    refuses 'folder of a run\|comes from' export gpt out=$out
    refuses 'folder of a run' import hf out=$out
done
mkdir bare
cp gpt/config.yaml bare/
refuses 'folder of a run' export gpt out=bare
refuses 'comes from' import hf out=hf
refuses 'comes from' export hf out=./hf
cmp config.before gpt/config.yaml || die 'a run lost its settings'
cmp config.before bare/config.yaml || die 'a run without checkpoints lost its settings'

# An export replaces an earlier one, and nothing else.
before=$(cat hf/* | sha256sum)
"$tutti" export gpt out=hf >out || die 'an export over an earlier one'
[ "$before" = "$(cat hf/* | sha256sum)" ] || die 'the second export differs'
mkdir foreign notes bare-hub empty
echo 'learning_rate: 3' >foreign/config.yaml
echo 'remember the milk' >notes/todo.txt
cp hub/config.json hub/model.safetensors bare-hub/
for command in 'export gpt' 'import hub'; do
    # shellcheck disable=SC2086 # words are an argument each
    {
        refuses 'out=foreign holds a model that .tutti export. did not write' \
            $command out=foreign
        refuses 'out=notes holds todo.txt, which is not of an export' \
            $command out=notes
        refuses 'did not write; name a new folder' $command out=bare-hub
        refuses 'is a file, and an export is a folder' $command out=text
        refuses 'out=. holds .*, which is not of an export' $command out=.
    }
done
refuses 'is no earlier export with format=llmc' export hf out=text format=llmc
refuses 'is no earlier export with format=onnx' export hf out=text format=onnx
refuses 'name it, as in out=empty/model.bin' export hf out=empty format=llmc
"$tutti" export hf out=model.bin format=llmc >out || die 'llm.c over llm.c'
[ "$(cat foreign/*)" = 'learning_rate: 3' ] || die 'a file of the user is gone'
[ "$(cat notes/*)" = 'remember the milk' ] || die 'a file of the user is gone'
(cd empty && "$tutti" export ../gpt out=. >out.txt 2>&1) &&
    die 'an export beside out.txt'
rm -f empty/out.txt
(cd empty && "$tutti" export ../gpt out=. >../out 2>&1) || die 'out=.'
[ -s empty/model.safetensors ] && (cd empty && [ -s config.yaml ]) ||
    die 'an export into this folder'
"$tutti" import model.bin out=empty >out || die 'an import over an export'
[ ! -e empty/tokenizer.json ] || die 'a file of the old export is left'
"$tutti" export gpt out=new/deep/in >out && [ -s new/deep/in/config.yaml ] ||
    die 'an export into new folders'

# One that fails leaves nothing, and the earlier one as it was.
cp gpt/config.yaml config.before
before=$(cat hf/* | sha256sum)
for out in hf fresh new2/deep; do
    (
        trap '' XFSZ
        ulimit -f 16
        "$tutti" export gpt out=$out >/dev/null 2>&1
    ) && die "an export without room to $out"
done
[ "$before" = "$(cat hf/* | sha256sum)" ] || die 'a failed export changed another'
[ ! -e fresh ] && [ ! -e new2 ] || die 'a failed export left a folder'
# Nor does one that was killed, once the next has come.
mkdir .tmp-hf-999999999-0
"$tutti" export gpt out=hf >out
[ -z "$(find . -name '.tmp-*')" ] || die "left: $(find . -name '.tmp-*')"

# Biases that an export adds are counted aloud, as an import will count them.
"$tutti" train "$examples/gpt-tiny.yaml" train.steps=1 data=text data.path=text \
    model.vocab=64 model.bias=false run=unbiased >log 2>&1 || die 'training'
"$tutti" export unbiased out=zeros >out 2>err || die 'export without biases'
said=$(sed -n 's/.*an import counts \([0-9]*\) parameters.*/\1/p' err)
"$tutti" import zeros out=zeros-in --json >out 2>err || die 'import with zeros'
grep -q "\"parameters\": $said," out ||
    die "the export says $said parameters, the import $(cat out)"

# What a run learnt is in its checkpoints, whatever lies beside them.
"$tutti" sample gpt prompt=To tokens=20 seed=3 >want.txt
cp -r gpt beside
"$tutti" train "$examples/gpt-tiny.yaml" train.steps=9 data=text \
    data.path=text model.vocab=64 model.bias=true seed=5 optim.lr=0.1 run=other \
    >log 2>&1 || die "training: $(cat log)"
"$tutti" export other out=other-hf >out
cp other-hf/model.safetensors other-hf/config.json beside/
"$tutti" sample beside prompt=To tokens=20 seed=3 >have.txt
cmp want.txt have.txt || die 'a file beside the checkpoints was taken'

# Every token that ends a text does: all of them, so nothing is written.
cp -r hub ends
python3 - ends/config.json <<'PYTHON'
import json, sys
config = json.load(open(sys.argv[1]))
config["eos_token_id"] = list(range(64))
json.dump(config, open(sys.argv[1], "w"))
PYTHON
"$tutti" sample ends prompt=To tokens=5 --json >out 2>err || die "ends: $(cat err)"
grep -q '"tokens": 0, "ended": true' out || die "several ends: $(cat out)"
sed -i 's/"eos_token_id": \[[^]]*\]/"eos_token_id": null/' ends/config.json
seq -s , 0 63 | sed 's/.*/{"eos_token_id": [&]}/' >ends/generation_config.json
"$tutti" sample ends prompt=To tokens=5 --json >out 2>err || die "ends: $(cat err)"
grep -q '"tokens": 0, "ended": true' out || die "generation_config: $(cat out)"

# What is read as something else.
cp -r hub other-kind
sed -i 's/GPT2LMHeadModel/GPT2ForSequenceClassification/' other-kind/config.json
refuses 'GPT2ForSequenceClassification' import other-kind out=x
refuses 'GPT2ForSequenceClassification' sample other-kind
sed 's/{/{"quantization_config": {"quant_method": "gptq"},/' hub/config.json \
    >other-kind/config.json
refuses 'gptq' import other-kind out=x

# Names from files do not command a terminal.
python3 - <<'PYTHON'
import json, struct
name = "a\x1b[31mred\x9b0m\x7f\nb"
header = {"__metadata__": {"k\x1b[2J": "v\x1b]0;x\x07"},
          name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
text = json.dumps(header).encode()
open("escape.safetensors", "wb").write(
    struct.pack("<Q", len(text)) + text + bytes(4))
PYTHON
"$tutti" inspect escape.safetensors >out || die 'inspect of odd names'
"$tutti" inspect escape.safetensors --json >>out || die 'inspect of odd names'
"$tutti" import escape.safetensors out=x config=hf/config.json >>out 2>&1 &&
    die 'import of odd names'
"$tutti" train "$examples/gpt-tiny.yaml" init.from=escape.safetensors run=odd \
    >>out 2>&1 && die 'init.from of odd names'
python3 - <<'PYTHON' || die 'a name reached the terminal as it is'
import sys
text = open("out", "rb").read()
sys.exit(any(c < 32 and c != 10 or c == 127 for c in text) or
         b"\xc2\x9b" in text)
PYTHON
refuses 'no such' inspect nowhere
refuses 'No such' export nowhere out=x
refuses 'image models' export gpt out=x format=onnx
refuses 'GPT-2 only' export resnet out=x format=llmc
refuses 'formt' export gpt out=x formt=onnx
mkdir alone
cp resnet/checkpoints/step-00000002/model.safetensors alone/
refuses 'config=' import alone/model.safetensors out=x
refuses 'shape' import plain.safetensors out=x model=gpt model.width=32 model.heads=4
head -c 1000 model.bin >short.bin
refuses 'short.bin' inspect short.bin
