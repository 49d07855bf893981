# Workers that change one copy of the weights without locks: the loss falls on 2 and 4 ranks;
# one worker alone is plain training in every bit; runs go on, also with others; what has no
# meaning is refused.
# deadline: 300
set -eu
. tests/script_begin

# train RUN RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    "$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=16 optim.lr=0.05 \
        run="$run" train.steps=8 checkpoint.every=4 threads=1 log.every=4 -n "$ranks" "$@" >"$folder/out" 2>&1
}

states() {
    cat "$folder/$1"/checkpoints/step-00000008/*.safetensors | cksum
}

# learns RANKS SETTINGS... - the loss of validation falls to less than two thirds.
learns() {
    rm -rf "$folder/many"
    n=$1
    shift
    train many "$n" exchange.policy=hogwild train.steps=240 eval.every=240 checkpoint.every=0 optim.lr=0.1 "$@" ||
        die "$*: $(cat "$folder/out")"
    grep -q 'none can be repeated' "$folder/out" || die "$*: it is not said that no run can be repeated"
    grep -q "$n workers: $((n * 240)) gradients" "$folder/out" || die "$*: $(cat "$folder/out")"
    grep -q 'workers made .* updates per second' "$folder/out" || die "$*: $(cat "$folder/out")"
    sed -n 's/.*"val\/loss":\([^,}]*\).*/\1/p' "$folder/many/metrics.jsonl" | tail -n 1 |
        awk '{ exit !($1 > 0 && $1 < 1.5) }' || die "$*: the loss does not fall: $(cat "$folder/out")"
}

learns 2 optim=sgd
grep -q '"histogram"' "$folder/many/workers.json" || die "workers.json has no histogram"
grep -q '"workers/staleness"' "$folder/many/metrics.jsonl" || die "metrics have no staleness"
learns 4 optim=sgd
learns 4 optim=adamw optim.lr=0.005 exchange.copies=2 exchange.every=2
learns 4 optim=sgd exchange.words=bf16 exchange.moves=int8

# One worker.
for optim in sgd momentum adamw; do
    rm -rf "$folder/plain" "$folder/one"
    train plain 1 optim=$optim optim.clip=0 || die "plain: $(cat "$folder/out")"
    train one 1 optim=$optim optim.clip=0 exchange.policy=hogwild || die "one: $(cat "$folder/out")"
    [ "$(states one)" = "$(states plain)" ] || die "$optim: one worker is not plain training"
done
# Stopped and gone on, it has the same bits.
train parts 1 optim=adamw optim.clip=0 exchange.policy=hogwild train.stop=4 || die "parts: $(cat "$folder/out")"
train parts 1 optim=adamw optim.clip=0 exchange.policy=hogwild || die "parts: $(cat "$folder/out")"
[ "$(states parts)" = "$(states one)" ] || die "one worker that was stopped ends in other bits"

# Going on with the same workers, on fewer ranks; and with others.
train on 4 exchange.policy=hogwild exchange.copies=2 optim=adamw train.stop=4 || die "on: $(cat "$folder/out")"
train on 2 exchange.policy=hogwild exchange.copies=2 optim=adamw exchange.replicas=4 || die "on: $(cat "$folder/out")"
grep -q '4 workers: 32 gradients' "$folder/out" || die "4 workers have not gone on: $(cat "$folder/out")"
train others 4 exchange.policy=hogwild train.stop=4 || die "others: $(cat "$folder/out")"
train others 2 exchange.policy=hogwild || die "others: $(cat "$folder/out")"
grep -q 'workers start from the model' "$folder/out" || die "others: $(cat "$folder/out")"
grep -q 'done at step 8' "$folder/out" || die "others: $(cat "$folder/out")"

# refused WHY SETTINGS...
refused() {
    why=$1
    shift
    train no 2 exchange.policy=hogwild "$@" && die "$*: not refused"
    grep -q "$why" "$folder/out" || die "$*: $(cat "$folder/out")"
}
refused 'no order to draw' exchange.schedule=seeded
refused 'no order to draw' exchange.schedule="$folder/one/schedule.txt"
refused 'cannot be exact' exact=true
refused 'exchange.copies=2 would do' exchange.copies=3
refused 'exchange.words=full would do' exchange.words=bf16 precision=fp64
"$TUTTI" verify model=mlp data=synthetic image=8 batch=16 exchange.policy=hogwild -n 2 >"$folder/out" 2>&1 &&
    die 'verify is not refused'
grep -q 'nothing to verify' "$folder/out" || die "verify: $(cat "$folder/out")"
