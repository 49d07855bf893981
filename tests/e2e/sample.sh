# Text from runs, checkpoints and folders of others: the same seed gives the same
# text, prompts from everywhere, and errors that say what to do.
# deadline: 120
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
TUTTI=$(realpath "$TUTTI")
data=$(realpath ../shared/data 2>/dev/null || true)
export XDG_STATE_HOME=$folder/state
cd "$folder"

die() {
    echo "$1"
    exit 1
}

# sample WORD... - standard output to out.
sample() {
    "$TUTTI" sample "$@" threads=1 >out 2>err || die "sample $*: $(cat err)"
}

# refuses WHAT WORD... - exit status 2, one line that has WHAT, nothing written.
refuses() {
    what=$1
    shift
    status=0
    "$TUTTI" sample "$@" threads=1 >out 2>err || status=$?
    [ $status -eq 2 ] || die "sample $*: exit status $status"
    grep -q "$what" err || die "sample $*: $(cat err)"
    [ ! -s out ] || die "sample $*: wrote $(cat out)"
}

i=0
while [ $i -lt 60 ]; do
    printf 'the quick brown fox jumps over the lazy dog. déjà vu ☕\n'
    i=$((i + 1))
done >text.txt

train() {
    "$TUTTI" train "$@" batch=8 data=text data.path=text.txt \
        data.tokenizer=chars train.steps=120 optim.lr=1e-2 threads=1 \
        >log 2>&1 || die "train $*: $(cat log)"
}
small='model.layers=1 model.width=32 model.heads=2 model.context=24'
# shellcheck disable=SC2086
train model=gpt $small run=gpt
# shellcheck disable=SC2086
train model=llama model.kv_heads=1 model.ff=64 $small run=llama
train model=lstm model.layers=1 model.embed=32 model.hidden=32 run=lstm

# A model that has learnt its text goes on with it, far beyond its context.
for run in gpt llama lstm; do
    sample $run prompt='the quick' tokens=150 temperature=0
    grep -q 'the quick brown fox' out || die "$run wrote $(cat out)"
    [ "$(wc -m <out)" -ge 150 ] || die "$run: too short: $(cat out)"
    sample $run prompt='the ' seed=3 tokens=60
    cp out first
    sample $run prompt='the ' seed=3 tokens=60
    cmp -s out first || die "$run: the same seed, another text"
    sample $run prompt='the ' seed=3 tokens=60 temperature=5
    cmp -s out first && die "$run: temperature does nothing"
    sample $run prompt='the ' temperature=0
    cp out first
    sample $run prompt='the ' top_k=1 seed=9
    cmp -s out first || die "$run: top_k=1 is not greedy"
    sample $run prompt='the ' top_p=0 seed=8
    cmp -s out first || die "$run: top_p=0 is not greedy"
done

# The checkpoint, its file and the best one are the run.
sample gpt prompt='the ' temperature=0 tokens=30
cp out first
for from in gpt/checkpoints gpt/checkpoints/step-00000120 \
    gpt/checkpoints/step-00000120/model.safetensors; do
    sample $from prompt='the ' temperature=0 tokens=30
    cmp -s out first || die "$from: another text"
done
sample gpt prompt='the ' temperature=0 tokens=30 --best

# Prompts: from standard input, none, long, with characters of several bytes.
printf 'the ' | "$TUTTI" sample gpt prompt=- temperature=0 tokens=30 \
    threads=1 >out || die 'prompt from standard input'
cmp -s out first || die 'prompt from standard input: another text'
sample gpt tokens=20
sample gpt tokens=0 prompt='déjà'
[ "$(cat out)" = déjà ] || die "tokens=0 wrote $(cat out)"
sample gpt prompt='over the lazy dog. déjà vu ☕' tokens=10
grep -q 'the last 24' err || die "a long prompt: $(cat err)"
sample gpt prompt='the ' tokens=5 --only-new
[ "$(wc -m <out)" -le 6 ] || die "--only-new wrote $(cat out)"
sample gpt prompt='the ' tokens=5 n=3
[ "$(grep -c '^---$' out)" -eq 2 ] || die "n=3 wrote $(cat out)"
sample gpt prompt='the ' tokens=5 n=2 --json
[ "$(grep -c '"tokens": 5' out)" -eq 2 ] || die "--json wrote $(cat out)"

refuses 'usage'
refuses 'No such file' nowhere
refuses 'did you mean "prompt"' gpt promt=x
refuses 'tokens' gpt tokens=-1
refuses 'top_p' gpt top_p=2
refuses 'temperature' gpt temperature=-1
refuses '"Z"' gpt prompt=Z
mkdir empty
refuses 'empty' empty
cp -r gpt/checkpoints/step-00000120 moved
rm moved/config.yaml
refuses 'config.yaml' moved/model.safetensors
"$TUTTI" train model=mlp data=synthetic model.classes=3 image=4 \
    model.channels=1 train.steps=1 run=mlp threads=1 >log 2>&1 ||
    die "train mlp: $(cat log)"
refuses 'no language model' mlp

# A folder of others, if there is one.
[ -f "$data/reference/gpt2-tiny.safetensors" ] || exit 0
mkdir hf
cp "$data/reference/gpt2-tiny.safetensors" hf/model.safetensors
cp "$data/reference/gpt2-tiny-config.json" hf/config.json
sample hf prompt='1 2 3' temperature=0 tokens=13
# What transformers 5 and torch give.
[ "$(cat out)" = '1 2 3 58 40 91 36 91 24 77 24 31 24 31 24 31' ] ||
    die "GPT-2 wrote $(cat out)"
sed -i 's/gelu_new/relu/' hf/config.json
refuses 'activation_function=relu' hf prompt=1
sed -i 's/"gpt2"/"bert"/' hf/config.json
refuses '"bert"' hf prompt=1
