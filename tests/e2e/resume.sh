# Training 2N steps equals N, stop, N: weights, optimiser, averages and metrics, in
# every bit. Changed settings are refused; --fork and --fresh are the ways around.
# deadline: 300
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME=$folder/state
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

train() {
    "$tutti" train "$@" >out 2>err || fail "train $*: $(cat err)"
}

without_times() {
    sed -E 's/"(seconds|step_seconds|[a-z]+_per_second)":[^,}]*,?//g' "$1"
}

# same A B STEP - two runs have the same checkpoint and the same metrics.
same() {
    for file in model optim; do
        cmp "$1/checkpoints/step-$3/$file.safetensors" \
            "$2/checkpoints/step-$3/$file.safetensors" ||
            fail "$file of $1 and $2 differ"
    done
    without_times "$1/metrics.jsonl" >a
    without_times "$2/metrics.jsonl" >b
    cmp -s a b || fail "metrics of $1 and $2 differ: $(diff a b)"
    count=$(find "$2" -name '.tmp*' | wc -l)
    [ "$count" -eq 0 ] || fail "$2 has temporary files"
}

# halves NAME FILE.yaml SETTINGS... - 10 steps; 4 and 6 steps.
halves() {
    name=$1
    shift
    train "$@" run="$name-a" train.steps=10
    train "$@" run="$name-b" train.steps=10 train.stop=4
    train "$@" run="$name-b" train.steps=10
    grep -q '10' out || fail "$name did not go on"
    same "$name-a" "$name-b" 00000010
}

cat >gpt.yaml <<'END'
model: gpt
model.layers: 1
model.heads: 2
model.width: 16
model.context: 8
data: synthetic
data.size: 1000
data.classes: 16
batch: 4
optim.lr: 0.01
optim.schedule: cosine
optim.warmup: 3
log.every: 3
eval.every: 5
END
cat >resnet.yaml <<'END'
model: resnet18
model.width: 4
data: synthetic
data.size: 60
data.image: 16
data.pad: 2
data.flip: true
batch: 4
optim: momentum
optim.lr: 0.01
log.every: 3
eval.every: 5
END

halves plain gpt.yaml
halves dropout gpt.yaml model.dropout=0.2 accumulate=2
halves ema gpt.yaml train.ema=0.9 train.spike=skip train.nan=skip
halves bf16 gpt.yaml precision=bf16
halves images resnet.yaml
cmp -s plain-a/checkpoints/step-00000010/model.safetensors \
    dropout-a/checkpoints/step-00000010/model.safetensors &&
    fail "dropout changes nothing"

# What may change does not matter; a run that is extended equals a longer one.
train gpt.yaml run=free train.steps=10 train.stop=4 checkpoint.every=2
train gpt.yaml run=free train.steps=10 checkpoint.keep=3 data.workers=2 \
    data.ahead=7 log.tensorboard=false
same plain-a free 00000010

# Other settings are refused, with a table, and nothing is touched.
before=$(find free -type f ! -name .lock | sort | xargs cksum)
"$tutti" train gpt.yaml run=free train.steps=10 optim.lr=0.02 seed=2 >out 2>err
[ $? -eq 2 ] || fail "changed settings are not refused"
grep -q '^  optim.lr  *0.01  *0.02$' err || fail "no table: $(cat err)"
grep -q '^  seed  *1  *2$' err || fail "not all of the table"
"$tutti" train gpt.yaml run=free train.steps=12 >out 2>err
[ $? -eq 2 ] || fail "a cosine with another end is not refused"
[ "$before" = "$(find free -type f ! -name .lock | sort | xargs cksum)" ] ||
    fail "a refused start changed the run"

# A fork goes on in a folder of its own and leaves the old one alone.
train gpt.yaml run=free train.steps=14 optim.lr=0.02 --fork
grep -q 'forked from free/checkpoints/step-00000010' out err ||
    fail "does not say what it forked from"
[ -d free-fork/checkpoints/step-00000014 ] || fail "the fork did not go on"
[ "$before" = "$(find free -type f ! -name .lock | sort | xargs cksum)" ] ||
    fail "a fork changed the old run"
train gpt.yaml run=free-fork train.steps=14 optim.lr=0.02

# A fresh start keeps the old folder under another name.
train gpt.yaml run=free train.steps=10 optim.lr=0.02 --fresh
grep -q 'free is now free.1' err || fail "does not say where the old run is"
[ -d free.1/checkpoints/step-00000010 ] || fail "the old run is lost"
[ "$(grep -c train/loss free/metrics.jsonl)" -eq 5 ] || fail "not a fresh run"

# A checkpoint that was damaged is not used: the one before is, with a message.
train gpt.yaml run=torn train.steps=10 train.stop=6 checkpoint.every=3
printf x | dd of=torn/checkpoints/step-00000006/model.safetensors bs=1 \
    seek=300 conv=notrunc 2>/dev/null
train gpt.yaml run=torn train.steps=10 checkpoint.every=3
grep -q 'step-00000006' out err || fail "says nothing about the damage"
same plain-a torn 00000010

# The newest one was taken away: it says so, and goes on from the one before.
train gpt.yaml run=taken train.steps=10 train.stop=6 checkpoint.every=3
rm -r taken/checkpoints/step-00000006
train gpt.yaml run=taken train.steps=10 checkpoint.every=3
grep -q 'step 6, the newest that was saved, is missing: it goes on from step 5' out err ||
    fail "says nothing about the one that was taken away"
same plain-a taken 00000010
train gpt.yaml run=taken train.steps=10 checkpoint.every=3
grep -q 'is missing' out err && fail "it is said for ever"

# Two at once in one folder: the second is refused.
"$tutti" train gpt.yaml run=busy train.steps=100000 >/dev/null 2>&1 &
pid=$!
tries=0
while [ ! -s busy/metrics.jsonl ] && [ $tries -lt 200 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
"$tutti" train gpt.yaml run=busy train.steps=100000 >out 2>err
[ $? -eq 2 ] || fail "two runs share a folder"
grep -q "busy/checkpoints is in use by process $pid (tutti): .*kill $pid.*another folder" err ||
    fail "it should say who has it and what to do: $(cat err)"
kill -TERM $pid
wait $pid
[ $? -eq 3 ] || fail "SIGTERM does not end with status 3"
exit 0
