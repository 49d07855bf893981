# exact=true: 1, 2 and 4 ranks on any level of ZeRO have the same bits after some steps:
# checkpoints, metrics, evaluations; a run goes on on another number of ranks as if
# nothing had happened. What cannot be exact is refused in one sentence.
# deadline: 300
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME=$folder/state
export TMPDIR=$folder
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

train() {
    "$tutti" train "$@" >out 2>err || fail "train $*: $(cat err)"
}

# same A B - two runs have the same checkpoint and the same metrics.
same() {
    for file in model optim; do
        cmp "$1/checkpoints/step-00000006/$file.safetensors" \
            "$2/checkpoints/step-00000006/$file.safetensors" ||
            fail "$file of $1 and $2 differ"
    done
    for run in "$1" "$2"; do
        sed -E 's/,?"(seconds|step_seconds|[a-z]+_per_second|comm\/[a-z_]*)":[^,}]*//g' \
            "$run/metrics.jsonl" >"$run.metrics"
    done
    cmp -s "$1.metrics" "$2.metrics" ||
        fail "metrics of $1 and $2 differ: $(diff "$1.metrics" "$2.metrics")"
}

cat >gpt.yaml <<'END'
model: gpt
model.layers: 2
model.heads: 2
model.width: 24
model.context: 16
model.dropout: 0.2
data: synthetic
data.size: 1000
data.classes: 16
batch: 24
accumulate: 3
exact: true
optim.lr: 0.01
optim.clip: 0.5
train.steps: 6
train.ema: 0.9
log.every: 1
eval.every: 3
END
cat >resnet.yaml <<'END'
model: resnet18
model.width: 4
data: synthetic
data.size: 60
data.image: 16
batch: 8
exact: true
optim: momentum
optim.lr: 0.05
train.steps: 6
log.every: 1
eval.every: 3
END
for model in gpt resnet; do
    train $model.yaml run=$model-1 threads=2
    train $model.yaml run=$model-2 zero=2 -n 2
    same $model-1 $model-2
    train $model.yaml run=$model-4 zero=3 -n 4
    same $model-1 $model-4
    train $model.yaml run=$model-b train.stop=2 zero=1 -n 4
    train $model.yaml run=$model-b train.stop=4
    train $model.yaml run=$model-b -n 2
    if grep -q 'bits may differ' out err; then
        fail "$(cat out err)"
    fi
    same $model-1 $model-b
done

# Also where convolutions are plain products, whose sums the library would divide.
train resnet.yaml run=plain-1 isa=base threads=1
train resnet.yaml run=plain-5 isa=base threads=5
same plain-1 plain-5

"$tutti" verify gpt.yaml precision=fp32 zero=1 -n 4 >out 2>&1 ||
    fail "verify: $(cat out)"
grep -q '^same bits$' out || fail "verify does not say that bits are equal: $(cat out)"
"$tutti" verify resnet.yaml bn.group=4 precision=fp32 -n 2 --json >out 2>&1 ||
    fail "verify: $(cat out)"
grep -q '"bits_equal": true' out || fail "no bits_equal: $(cat out)"

# refused SENTENCE SETTINGS... - one sentence, before anything starts.
refused() {
    sentence=$1
    shift
    "$tutti" train gpt.yaml run=refused "$@" >out 2>err
    [ $? -eq 2 ] || fail "not refused: $*: $(cat err)"
    grep -q "$sentence" err || fail "not \"$sentence\": $(cat err)"
    [ ! -e refused/checkpoints ] || fail "something started: $*"
}
refused '3 ranks cannot share 4 blocks .* 2 ranks would do' -n 3
refused 'exact.blocks=8 would do' -n 8
refused 'exact.blocks=6 is no power of two; 4 or 8' exact.blocks=6
refused 'collective=ring sums .* collective=auto would do' collective=ring -n 2
refused 'has 2 equal blocks, too few for 4 ranks; .* of 8 or 2 ranks' batch=18 -n 4
"$tutti" train gpt.yaml run=gpt-1 exact.blocks=2 train.steps=7 >out 2>err
[ $? -eq 2 ] || fail "blocks may not change in a run: $(cat err)"
grep -q 'exact.blocks' err || fail "exact.blocks is not named: $(cat err)"
