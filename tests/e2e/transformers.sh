# Models of transformers are taken, trained for a step and exported; transformers loads
# what was written, with no tensor too few or too many, and computes our logits.
# only: all
# deadline: 900
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
library=$(dirname "$tutti")/libtutti.so
oracle=$PWD/tests/oracle

die() {
    echo "$1"
    exit 1
}

python=$(python3 bench/find_torch.py 2>/dev/null) || python=false
"$python" -c 'import transformers, safetensors' 2>/dev/null || {
    echo 'no Python with PyTorch and transformers (TUTTI_TORCH_PYTHON names one)'
    exit 77
}
"$python" -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$library" 2>/dev/null || {
    echo 'Python cannot load libtutti.so (a build with sanitizers, or none)'
    exit 77
}
names=${FAMILIES:-gpt2 llama llama-tied llama3 llama-linear llama-yarn llama-yarn-set
    llama-head llama-bias mistral mistral-plain qwen2 qwen2-tied qwen3 qwen3-yarn mixtral
    mixtral-unbalanced}
# shellcheck disable=SC2086 # words are names
"$python" "$oracle/exported.py" make "$folder" $names >"$folder/log" 2>&1 ||
    die "exported.py make: $(tail -3 "$folder/log")"
cd "$folder"
# Ids below the models' vocabulary of 96, two bytes each.
"$python" -c 'import random, struct, sys
random.seed(5)
sys.stdout.buffer.write(
    struct.pack("<4000H", *(random.randrange(96) for _ in range(4000))))' >ids.bin
for name in $names; do
    "$tutti" train data=tokens data.path=ids.bin init.from="$name/hf" batch=2 seq=40 \
        train.steps=1 optim=adamw optim.lr=0.01 optim.warmup=0 precision=fp32 \
        device=cpu threads=1 run="$name/run" >log 2>&1 || die "$name: $(tail -3 log)"
    "$tutti" export "$name/run" out="$name/out" >log 2>&1 ||
        die "export of $name: $(cat log)"
done
# shellcheck disable=SC2086 # words are names
"$python" "$oracle/exported.py" compare "$folder" $names "$library" 2>err ||
    die "$(tail -3 err)"
