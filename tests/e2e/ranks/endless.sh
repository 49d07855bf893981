# Pipes that are not emptied before each update: ranks do what one rank does with the same
# table, a run that was killed goes on to the bits of one that was left alone, and what has
# no meaning is refused. ENDLESS=all for all pairs of models, schedules and stages.
# deadline: 900
set -u
folder=$(mktemp -d)
pid=
trap '[ -n "$pid" ] && kill -9 $pid 2>/dev/null; rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder/state" XDG_CACHE_HOME="$folder/cache"
tutti=$(realpath "$TUTTI")
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

small='precision=fp64 threads=1 micro=2 optim=momentum optim.lr=0.05'
gpt='model=gpt model.tied=false model.layers=4 model.heads=2 model.width=16 model.vocab=17 model.context=8'
llama='model=llama model.layers=4 model.heads=2 model.kv_heads=2 model.width=16 model.ff=24 model.vocab=17 model.context=8'
lstm='model=lstm model.layers=3 model.embed=12 model.hidden=20 model.vocab=37 model.dropout=0.2 seq=7'
resnet='model=resnet model.depth=18 model.width=4 model.classes=5 image=16'

# verify RANKS SETTINGS...
verify() {
    n=$1
    shift
    "$tutti" verify $small "$@" -n "$n" >out 2>&1 || fail "verify $*: $(cat out)"
    grep -q '^the same$\|^same bits$' out || fail "verify $*: $(cat out)"
}

verify 2 $gpt mesh.pipe=2 pipe.schedule=pipedream accumulate=1 model.dropout=0.1
verify 3 $llama mesh.pipe=3 pipe.schedule=2bw accumulate=2 train.ema=0.9
verify 4 $gpt mesh.pipe=4 pipe.schedule=predict accumulate=1
verify 4 $gpt mesh.pipe=2 mesh.data=2 zero=3 pipe.schedule=2bw accumulate=3
verify 4 $gpt mesh.pipe=2 mesh.tensor=2 pipe.schedule=2bw accumulate=1
# Stages without weights: more of them than layers that have some.
verify 4 model=mlp data=synthetic mesh.pipe=4 pipe.schedule=pipedream accumulate=1
verify 4 model=mlp data=synthetic mesh.pipe=4 pipe.schedule=2bw accumulate=4
verify 3 $lstm mesh.pipe=3 pipe.schedule=pipedream accumulate=2 recompute=full
verify 2 $gpt mesh.pipe=2 pipe.schedule=pipedream accumulate=1 pipe.steps=2 verify.steps=5
verify 2 $gpt mesh.pipe=2 pipe.schedule=2bw accumulate=2 data=synthetic data.size=400 data.classes=16
# What is done about old gradients; of all stages by one rank too.
verify 4 $gpt mesh.pipe=4 pipe.schedule=pipedream accumulate=1 exchange.staleness=lr
verify 4 $gpt mesh.pipe=4 pipe.schedule=pipedream accumulate=2 exchange.staleness=momentum
verify 3 $llama mesh.pipe=3 pipe.schedule=2bw accumulate=2 exchange.staleness=momentum
verify 4 $gpt mesh.pipe=2 mesh.data=2 zero=3 pipe.schedule=pipedream accumulate=3 exchange.staleness=lr \
    data=synthetic data.size=400 data.classes=16
if [ "${ENDLESS:-}" = all ]; then
    for model in "$gpt" "$llama" "$lstm" "$resnet"; do
        for p in 2 3 4; do
            for m in 1 2 3 5; do
                for s in pipedream predict 2bw; do
                    [ $s = 2bw ] && [ $m -lt $((p - 1)) ] && continue
                    [ "$model" = "$lstm" ] && [ $p = 4 ] && continue
                    verify $p $model mesh.pipe=$p pipe.schedule=$s accumulate=$m
                done
            done
        done
    done
    for s in pipedream 2bw predict; do
        verify 4 $gpt mesh.pipe=2 mesh.tensor=2 pipe.schedule=$s accumulate=2
        verify 4 $gpt mesh.pipe=2 mesh.context=2 pipe.schedule=$s accumulate=2
        verify 4 $gpt mesh.pipe=2 mesh.data=2 pipe.schedule=$s accumulate=2
        verify 4 $gpt mesh.pipe=2 mesh.expert=2 model.experts=2 pipe.schedule=$s accumulate=2
    done
    for z in 1 2 3; do
        verify 4 $gpt mesh.pipe=2 mesh.data=2 zero=$z pipe.schedule=pipedream accumulate=1
        verify 4 $llama mesh.pipe=2 mesh.data=2 zero=$z pipe.schedule=2bw accumulate=2
        verify 4 $gpt mesh.pipe=2 mesh.data=2 zero=$z pipe.schedule=predict accumulate=2
    done
fi

# One stage updates after each micro-batch: that is training with batches of that size.
common="model=gpt model.tied=false model.layers=2 model.heads=2 model.width=16 model.context=8
    data=synthetic data.size=400 data.classes=16 threads=1 optim=sgd optim.lr=0.1 optim.clip=0
    log.tensorboard=false train.steps=12 batch=2"
"$tutti" train $common run=plain >out 2>&1 || fail "plain: $(cat out)"
"$tutti" train $common run=alone pipe.schedule=pipedream accumulate=1 mesh.pipe=1 >out 2>&1 ||
    fail "pipedream of one stage: $(cat out)"
cmp plain/checkpoints/step-00000012/model.safetensors \
    alone/checkpoints/step-00000012/model.safetensors ||
    fail "pipedream of one stage has other bits than training without stages"
# Nothing is old there, so nothing is done about it.
for rule in none lr momentum; do
    "$tutti" train $common run=one-$rule optim=momentum pipe.schedule=pipedream exchange.staleness=$rule >out 2>&1 ||
        fail "staleness=$rule of one stage: $(cat out)"
    cmp one-none/checkpoints/step-00000012/model.safetensors \
        one-$rule/checkpoints/step-00000012/model.safetensors || fail "$rule changes what one stage does"
done
# And so are stages that are emptied after each.
"$tutti" train $common run=emptied pipe.schedule=pipedream mesh.pipe=2 pipe.steps=1 -n 2 >out 2>&1 ||
    fail "a step at a time: $(cat out)"
cmp plain/checkpoints/step-00000012/model.safetensors \
    emptied/checkpoints/step-00000012/model.safetensors ||
    fail "stages that are emptied after each step have other bits than one rank"

# Killed between checkpoints, and resumed.
cat >gpt.yaml <<'END'
model: gpt
model.tied: false
model.layers: 4
model.heads: 2
model.width: 32
model.context: 16
data: synthetic
data.size: 1000
data.classes: 16
batch: 4
accumulate: 2
mesh.pipe: 3
optim: momentum
optim.lr: 0.02
threads: 1
train.steps: 330
log.every: 100
log.tensorboard: false
checkpoint.every: 60
eval.every: 120
pipe.steps: 20
END
for schedule in pipedream 2bw predict lr; do
    set -- pipe.schedule=$schedule
    [ $schedule = lr ] && set -- pipe.schedule=pipedream accumulate=1 exchange.staleness=lr
    "$tutti" train gpt.yaml "$@" run=$schedule -n 3 >out 2>&1 || fail "$schedule: $(cat out)"
    "$tutti" train gpt.yaml "$@" run=killed-$schedule -n 3 >out 2>err &
    pid=$!
    i=0
    while [ ! -e killed-$schedule/checkpoints/step-00000060 ]; do
        sleep 0.02
        i=$((i + 1))
        [ $i -lt 3000 ] || fail "$schedule: nothing was saved: $(cat out err)"
    done
    kill -9 $(ps -o pid= --ppid $pid | sort -n | sed -n 2p)
    wait $pid
    pid=
    "$tutti" train gpt.yaml "$@" run=killed-$schedule -n 3 >out 2>&1 ||
        fail "$schedule, again: $(cat out)"
    grep -q 'resumed at\|all steps were made before' out || fail "$schedule, again: $(cat out)"
    for file in model optim; do
        cmp $schedule/checkpoints/step-00000330/$file.safetensors \
            killed-$schedule/checkpoints/step-00000330/$file.safetensors ||
            fail "$schedule: other bits after it was killed"
    done
done
# Each rule is another run, so a run goes on under its own; what is evaluated has no stages.
"$tutti" train gpt.yaml pipe.schedule=pipedream accumulate=1 run=lr train.steps=400 -n 3 >out 2>err &&
    fail 'a run goes on under another rule'
grep -q 'exchange.staleness  *lr  *none' err || fail "another rule: $(cat err)"
"$tutti" eval lr >out 2>&1 || fail "eval of a run with a rule: $(cat out)"
# A signal stops a run where the pipe is empty, and it goes on to the same bits.
"$tutti" train gpt.yaml pipe.schedule=2bw run=stopped -n 3 >out 2>err &
pid=$!
i=0
while [ ! -e stopped/checkpoints/step-00000060 ]; do
    sleep 0.02
    i=$((i + 1))
    [ $i -lt 3000 ] || fail "stopped: nothing was saved: $(cat out err)"
done
kill -TERM $pid
wait $pid
pid=
"$tutti" train gpt.yaml pipe.schedule=2bw run=stopped -n 3 >out 2>&1 || fail "stopped: $(cat out)"
cmp 2bw/checkpoints/step-00000330/model.safetensors \
    stopped/checkpoints/step-00000330/model.safetensors || fail "other bits after a signal"

# A loss that is not finite ends the run when the pipe is empty, with a sentence.
"$tutti" train gpt.yaml pipe.schedule=pipedream optim=sgd optim.lr=1e6 optim.clip=0 run=nan -n 3 >out 2>err &&
    fail 'a loss that is not finite did not end the run'
grep -q 'is not finite in step [0-9]*; lower optim.lr or look at the data$' err || fail "not finite: $(cat err)"
grep -q '^failed at step 20 of' out || fail "not finite: $(cat out)"

# refused SENTENCE SETTINGS...
refused() {
    sentence=$1
    shift
    "$tutti" plan $gpt batch=4 accumulate=2 mesh.pipe=2 "$@" >out 2>&1 && fail "not refused: $*"
    grep -qF "$sentence" out || fail "$*: $(cat out)"
}
refused 'model.tied=false would do' pipe.schedule=pipedream model.tied=true
refused 'exact=true promises the bits of one rank' pipe.schedule=pipedream exact=true
refused 'train.nan=stop would do' pipe.schedule=2bw train.nan=skip
refused 'train.spike=none would do' pipe.schedule=2bw train.spike=rollback
refused 'optim=momentum would do' pipe.schedule=predict optim=adamw
refused 'recompute=none would do' pipe.schedule=predict optim=momentum recompute=full
refused 'eval.every=7 comes while micro-batches are on their way: it must be a multiple of pipe.steps=5, as 10 is' \
    pipe.schedule=2bw pipe.steps=5 eval.every=7
refused 'train.stop=12' pipe.schedule=2bw pipe.steps=5 train.stop=12 checkpoint.every=100
refused 'with pipe.schedule=1f1b no gradient is old; exchange.staleness=none would do' \
    pipe.schedule=1f1b exchange.staleness=lr
refused 'with pipe.schedule=auto no gradient is old' exchange.staleness=momentum
refused 'pipe.schedule=predict would do' pipe.schedule=2bw exchange.staleness=predict
refused 'is fixed by pipe.schedule=pipedream' pipe.schedule=pipedream exchange.staleness=reject
refused 'an update overwrites them; exchange.staleness=lr would do' pipe.schedule=2bw exchange.staleness=compensate
refused 'optim=adamw has none; optim=momentum would do' pipe.schedule=2bw optim=adamw exchange.staleness=momentum
refused 'weights are predicted here' pipe.schedule=predict optim=momentum exchange.staleness=lr
