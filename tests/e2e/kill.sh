# Killed at random moments and started again, a run ends with the bits of one that
# was left alone, and leaves no temporary file. KILLS=200 for a longer look.
# deadline: 900
set -u
folder=$(mktemp -d)
pid=
trap '[ -n "$pid" ] && kill -9 $pid 2>/dev/null; rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME=$folder/state
cd "$folder" || exit 1
kills=${KILLS:-6}

fail() {
    echo "$1"
    exit 1
}

cat >gpt.yaml <<'END'
model: gpt
model.layers: 1
model.heads: 2
model.width: 16
model.context: 8
model.dropout: 0.1
data: synthetic
data.size: 1000
data.classes: 16
batch: 4
optim.lr: 0.01
train.ema: 0.9
log.every: 3
eval.every: 10
checkpoint.every: 3
END
steps=$((kills * 60))
want=$(printf 'step-%08d' $steps)

without_times() {
    sed -E 's/"(seconds|step_seconds|[a-z]+_per_second)":[^,}]*,?//g' "$1"
}

begin=$(date +%s%N)
"$tutti" train gpt.yaml run=alone train.steps=$steps >out 2>err ||
    fail "left alone: $(cat err)"
whole=$((($(date +%s%N) - begin) / 1000000)) # milliseconds

# A moment for each kill, such that all of them together take a third of the run
# that is left alone, however fast the machine is.
random=12345
done=0
i=0
while [ $i -lt $kills ]; do
    i=$((i + 1))
    random=$(((random * 1103515245 + 12345) % 2147483648))
    "$tutti" train gpt.yaml run=killed train.steps=$steps >out 2>err &
    pid=$!
    moment=$((30 + random / 65536 % 1000 * whole * 2 / 3 / kills / 1000))
    sleep "$((moment / 1000)).$(printf '%03d' $((moment % 1000)))"
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    status=$?
    [ $status -eq 137 ] && done=$((done + 1))
    [ $status -eq 137 ] || [ $status -eq 0 ] ||
        fail "start $i ended with status $status: $(cat err)"
done
[ $done -ge $((kills / 3)) ] || fail "only $done of $kills were killed"
"$tutti" train gpt.yaml run=killed train.steps=$steps >out 2>err ||
    fail "the last start: $(cat err)"
pid=
for file in model optim; do
    cmp "alone/checkpoints/$want/$file.safetensors" \
        "killed/checkpoints/$want/$file.safetensors" ||
        fail "$file differs after $done kills"
done
without_times alone/metrics.jsonl >a
without_times killed/metrics.jsonl >b
cmp -s a b || fail "metrics differ after $done kills: $(diff a b | head)"
left=$(find killed -name '*tmp*')
[ -z "$left" ] || fail "temporary files: $left"
[ "$(find killed/checkpoints -name 'step-*' | wc -l)" -le 3 ] ||
    fail "old checkpoints stay"
exit 0
