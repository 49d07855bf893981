# tutti train -n: the same losses on any number of ranks, checkpoints that go from any
# number to any other, one way to stop, and nothing left of a run that was killed.
# deadline: 240
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME=$folder/state XDG_CACHE_HOME=$folder/cache
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

train() {
    "$tutti" train gpt.yaml "$@" >out 2>err || fail "train $*: $(cat err)"
}

# says PATTERN ARGUMENTS... - is refused with status 2 and one sentence.
says() {
    pattern=$1
    shift
    "$tutti" "$@" >out 2>err
    status=$?
    [ $status -eq 2 ] || fail "$*: status $status, not 2: $(cat err)"
    grep -Eq "$pattern" err || fail "$*: no \"$pattern\" in: $(cat err)"
    [ "$(wc -l <err)" -le 1 ] || fail "$*: more than a line: $(cat err)"
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
batch: 12
optim.lr: 0.01
optim.schedule: cosine
train.ema: 0.9
train.steps: 12
checkpoint.every: 4
checkpoint.keep: 9
eval.every: 6
sample.every: 6
sample.tokens: 5
log.every: 3
precision: fp64
device: ref
END

# What is computed does not depend on ranks: losses as printed, and samples.
numbers() {
    grep -Eo '^(step|eval) [0-9]+/12  loss [0-9.]+|^  │.*' out
}

train run=one
numbers >one.txt
[ "$(wc -l <one.txt)" -eq 9 ] || fail "one rank logged: $(cat one.txt)"
for how in "-n 2" "-n 3 accumulate=2 zero=1" "-n 4 zero=2" "-n 3 zero=3"; do
    # shellcheck disable=SC2086
    train run="many${how//[ =]/}" $how
    numbers | cmp -s - one.txt || fail "$how: $(cat out)"
    grep -q "ranks  *${how:3:1} ranks on 1 host (tutti -n ${how:3:1})" out ||
        fail "$how: no banner: $(cat out)"
done

# Where ranks differ, the memory is that of the one that needs the most.
train run=uneven -n 5 train.stop=1
grep -Eq '^  memory  *[0-9.]+ [kM]B on rank [1-4], the most of 5 ranks$' out ||
    fail "-n 5: $(cat out)"
train run=even -n 2 train.stop=1
grep -Eq '^  memory  *[0-9.]+ [kM]B per rank$' out || fail "-n 2: $(cat out)"

# The same bits every time, and with a stop between.
same() {
    for file in model optim; do
        cmp "$1/checkpoints/step-$3/$file.safetensors" \
            "$2/checkpoints/step-$3/$file.safetensors" ||
            fail "$file of $1 and $2 differ"
    done
}
train run=halves -n 3 zero=3 train.stop=5
train run=halves -n 3 zero=3
same "many-n3zero3" halves 00000012

# From four ranks to any number of them: the tensors keep every bit.
train run=four -n 4 train.stop=6
for how in "-n 1" "-n 2 zero=3" "-n 3 zero=1" "-n 4 zero=2"; do
    rm -rf on copy
    cp -r four on
    # shellcheck disable=SC2086
    train run=on $how
    numbers | tail -n 4 | cmp -s - <(tail -n 4 one.txt) ||
        fail "from 4 ranks to $how: $(cat out)"
    # shellcheck disable=SC2086
    train --fork run=four $how train.stop=6 >out
    mv four-fork copy
    same four copy 00000006
done

# Ctrl-C: all ranks finish the same step, and go on from it.
sed -i 's/^train.steps: .*/train.steps: 100000/; s/cosine/constant/' gpt.yaml
"$tutti" train gpt.yaml run=stopped -n 3 >out 2>err &
launcher=$!
for _ in $(seq 100); do
    grep -q '^step' out 2>/dev/null && break
    sleep 0.1
done
kill -INT $launcher
wait $launcher
status=$?
[ $status -eq 3 ] || fail "Ctrl-C: status $status: $(cat err)"
step=$(sed -n 's/^stopped and saved at step \([0-9]*\) of.*/\1/p' out)
[ -d "stopped/checkpoints/step-$(printf %08d "$step")" ] ||
    fail "Ctrl-C: no checkpoint of step $step"
train run=stopped -n 2 train.stop=$((step + 3))

# Ranks that were started apart: a signal to any of them ends all with the same status.
for rank in 0 1 2; do
    RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=3 \
        MASTER_ADDR=127.0.0.1 MASTER_PORT=$$ "$tutti" train gpt.yaml run=apart \
        --json >out$rank 2>err$rank &
    pids[rank]=$!
done
for _ in $(seq 200); do
    grep -q '"train/loss"' apart/metrics.jsonl 2>/dev/null && break
    sleep 0.1
done
kill -TERM "${pids[1]}"
for rank in 0 1 2; do
    wait "${pids[rank]}"
    status=$?
    [ $status -eq 3 ] || fail "SIGTERM: rank $rank has status $status: $(cat err$rank)"
done
grep -q '"reason": *"signal"' out0 || fail "SIGTERM: $(cat out0)"
[ ! -s out1 ] && [ ! -s out2 ] || fail "others speak: $(cat out1 out2)"

# A rank that is killed ends the job within a second, with its name and where.
train run=killed -n 3 train.stop=4
for victim in 1 3; do
    rm -f out
    "$tutti" train gpt.yaml run=killed -n 3 >out 2>err &
    launcher=$!
    for _ in $(seq 600); do
        grep -q '^step' out 2>/dev/null && break
        sleep 0.1
    done
    ranks=$(pgrep -P $launcher)
    kill -9 "$(echo "$ranks" | sed -n ${victim}p)"
    before=$(date +%s%N)
    wait $launcher
    status=$?
    took=$((($(date +%s%N) - before) / 1000000))
    [ $status -eq 2 ] || fail "killed: status $status"
    [ $took -lt 1000 ] || fail "killed: it took $took ms"
    grep -Eq "rank $((victim - 1)) \(host .*, pid [0-9]+\) stopped in .* of step [0-9]+.*: killed by signal 9" err ||
        fail "killed: $(cat err)"
    # What is safe is said with it.
    step=$(sed -n 's/.*; the checkpoint of step \([0-9]*\) in killed is good: the same command goes on.*/\1/p' err)
    [ -n "$step" ] && [ -d "killed/checkpoints/step-$(printf %08d "$step")" ] ||
        fail "killed: no checkpoint is named: $(cat err)"
    for rank in $ranks; do
        kill -0 "$rank" 2>/dev/null && fail "killed: rank $rank is left"
    done
done
"$tutti" train gpt.yaml run=killed -n 2 train.stop=$((step + 1)) >out 2>err ||
    fail "it does not go on: $(cat err)"

# Wrong use: one sentence, before anything is started.
says 'did you mean "batch"' train gpt.yaml -n 3 batcch=3
says 'batch=13 or -n 12 would do' train gpt.yaml -n 13
says 'accumulate=2 or -n 3 would do' train gpt.yaml -n 5 accumulate=4
says 'start 2 \(-n 2\)' train gpt.yaml -n 3 mesh.data=2
says 'transport=self is for one rank' train gpt.yaml -n 2 transport=self
says 'mpirun -n 2' train gpt.yaml -n 2 transport=mpi
says 'did you mean ring' train gpt.yaml -n 2 collective=rign
says 'zero=4: must be at most 3' train gpt.yaml -n 2 zero=4
says 'nowhere: No such file' train model=gpt train.steps=1 -n 2 data=text data.path=nowhere
says 'a whole number from 1 to 256' train gpt.yaml -n 0
says 'wants a value' train gpt.yaml -n
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 \
    says 'mpirun has started 2 ranks' train gpt.yaml -n 3

# A rank with another configuration is named with what it has.
for rank in 0 1 2; do
    RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=3 \
        MASTER_ADDR=127.0.0.1 MASTER_PORT=$$ "$tutti" train gpt.yaml run=odd \
        optim.lr=0.0$((rank / 2 + 1)) >out$rank 2>err$rank &
done
wait
grep -q 'rank 2 has another configuration than rank 0: optim.lr is 0.02 there and 0.01 here' err0 ||
    fail "odd configuration: $(cat err0 err1 err2)"
[ ! -s err1 ] && [ ! -s err2 ] || fail "others speak: $(cat err1 err2)"
[ ! -e odd ] || fail "a run that did not start has a folder"

# Evaluation by ranks of what one or many have made; samples by one.
"$tutti" eval one >out || fail "eval of one"
for how in "one -n 3" "many-n3zero3 -n 2" "many-n4zero2"; do
    # shellcheck disable=SC2086
    "$tutti" eval $how >out2 || fail "eval $how"
    cmp -s <(tail -n 2 out) <(tail -n 2 out2) || fail "eval $how: $(cat out2)"
done
"$tutti" sample "many-n3zero3" tokens=3 >out 2>err || fail "sample of ranks"

# Memory of one rank without any; steps against one rank.
"$tutti" plan gpt.yaml mesh.data=4 zero=3 --json >out || fail "plan"
"$tutti" plan gpt.yaml --json >one.json || fail "plan of one"
bytes() {
    sed -n 's/.*"parameter_bytes": *\([0-9]*\).*/\1/p' "$1"
}
[ $((3 * $(bytes out))) -lt "$(bytes one.json)" ] ||
    fail "zero=3 has $(bytes out) of $(bytes one.json) bytes"
"$tutti" bench step -n 2 model=mlp image=8 batch=4 steps=3 --json >out 2>err ||
    fail "bench step: $(cat err)"
grep -q '"speedup":' out || fail "bench step: $(cat out)"
grep -q '"one_rank_batch": 2,' out || fail "batch of one rank: $(cat out)"
# Stages share the layers, and each has the whole batch.
"$tutti" bench step -n 2 model=mlp image=8 batch=6 accumulate=2 mesh.pipe=2 steps=1 \
    warmup=1 --json >out 2>err || fail "bench step of stages: $(cat err)"
grep -q '"one_rank_batch": 6,' out || fail "batch of one rank: $(cat out)"
exit 0
