# Stages of a pipeline: what they save is loaded by any other layout and by one rank, and
# the other way round; a stage that is killed is named within a second, the last
# checkpoint is good, and the run that goes on ends with the bits of one that was left
# alone. RESHARD=300 for all pairs.
# deadline: 1800
set -u
folder=$(mktemp -d)
pid=
trap '[ -n "$pid" ] && kill -9 $pid 2>/dev/null; rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder/state" XDG_CACHE_HOME="$folder/cache"
tutti=$(realpath "$TUTTI")

fail() {
    echo "$1"
    exit 1
}

TUTTI="$tutti" tools/reshard --stages --pairs "${RESHARD:-10}" || exit 1

cd "$folder" || exit 1
cat >gpt.yaml <<'END'
model: gpt
model.layers: 4
model.heads: 2
model.width: 64
model.context: 16
data: synthetic
data.size: 1000
data.classes: 16
batch: 8
accumulate: 4
mesh.pipe: 3
optim.lr: 0.01
threads: 1
train.steps: 600
log.every: 100
log.tensorboard: false
checkpoint.every: 100
END

"$tutti" train gpt.yaml run=alone -n 3 >out 2>err ||
    fail "alone: $(cat out err)"

# Weights are read by one process: evaluation, text, other programs' files.
"$tutti" eval alone >out 2>err || fail "eval: $(cat out err)"
grep -q '^loss' out || fail "eval: $(cat out)"
"$tutti" sample alone tokens=4 >out 2>err || fail "sample: $(cat out err)"
"$tutti" export alone out=there >out 2>err || fail "export: $(cat out err)"
[ -s there/model.safetensors ] || fail "export: $(ls there)"
"$tutti" train gpt.yaml init.from=there run=tuned train.steps=1 -n 3 >out 2>err ||
    fail "init.from: $(cat out err)"

for stage in 0 1 2; do
    "$tutti" train gpt.yaml run="killed-$stage" -n 3 >out 2>err &
    pid=$!
    i=0
    while [ ! -e "killed-$stage/checkpoints/step-00000100" ]; do
        sleep 0.05
        i=$((i + 1))
        [ $i -lt 1200 ] || fail "stage $stage: nothing was saved: $(cat out err)"
    done
    victim=$(ps -o pid= --ppid $pid | sort -n | sed -n "$((stage + 1))p" |
        tr -d " ")
    begin=$(date +%s%N)
    kill -9 $victim
    wait $pid
    status=$?
    pid=
    spent=$((($(date +%s%N) - begin) / 1000000))
    [ $status -ne 0 ] || fail "stage $stage: it ended well"
    grep -q "rank $stage .*pid $victim" err || fail "stage $stage: $(cat err)"
    grep -q 'the checkpoint of step .* is good' err || fail "stage $stage: $(cat err)"
    [ $spent -lt 1000 ] || fail "stage $stage: it took $spent ms"
    "$tutti" train gpt.yaml run="killed-$stage" -n 3 >out 2>err ||
        fail "stage $stage, again: $(cat out err)"
    grep -q 'resumed at' out || fail "stage $stage, again: $(cat out)"
    for file in model optim; do
        cmp "alone/checkpoints/step-00000600/$file.safetensors" \
            "killed-$stage/checkpoints/step-00000600/$file.safetensors" ||
            fail "stage $stage: other bits"
    done
done

# All of it once more on one rank, from where the last was killed: nearly the same.
"$tutti" train gpt.yaml mesh.pipe=1 run=alone train.steps=601 >out 2>err ||
    fail "on one rank: $(cat out err)"
grep -q 'resumed at 600' out || fail "on one rank: $(cat out)"
