# exchange.clock=bsp by the wall clock: a worker computes where its rank's shard is updated, and
# ranks copy weights from each other's executors. The record, followed with executors of their
# own, ends in the same bits: with evaluations and checkpoints in between, in every
# precision, stopped and gone on with, and with messages that are late.
# deadline: 300
set -eu
. tests/script_begin

net="model=mlp model.layers=2 model.width=24 image=8"

# train RUN RANKS WORKERS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2 workers=$3
    shift 3
    # shellcheck disable=SC2086 # words
    "$TUTTI" train $net data=synthetic batch=24 optim.lr=0.02 \
        run="$run" train.steps=9 checkpoint.every=4 threads=1 log.every=2 eval.every=3 eval.batches=1 \
        exchange.policy=ps exchange.clock=bsp exchange.replicas="$workers" -n "$ranks" "$@" >"$folder/out" 2>&1
}

sums() {
    cat "$folder/$1"/checkpoints/step-00000009/*.safetensors | cksum
    sed -n 's/.*"\(train\|val\)\/loss":\([^,}]*\).*/\1 \2/p' "$folder/$1/metrics.jsonl"
}

# same WHAT WORKERS SETTINGS... - a run by the wall clock, and its record on fewer ranks.
same() {
    what=$1 workers=$2
    shift 2
    rm -rf "$folder/wall" "$folder/again"
    train wall "$workers" "$workers" exchange.schedule=wall "$@" || die "wall, $what: $(cat "$folder/out")"
    train again 1 "$workers" exchange.schedule="$folder/wall/schedule.txt" "$@" || die "again, $what: $(cat "$folder/out")"
    [ -n "$(sums wall)" ] && [ "$(sums wall)" = "$(sums again)" ] || die "$what: the record ends in other bits"
}

same 'a shard at rank 0, momentum' 2 optim=momentum
same 'shards, adamw, clipped' 4 exchange.server=sharded optim=adamw optim.clip=0.05
same 'shards, fp64' 3 exchange.server=sharded optim=momentum precision=fp64
same 'shards, bf16' 2 exchange.server=sharded optim=momentum precision=bf16
same 'bf16' 3 optim=adamw precision=bf16
same 'shards, micro-batches' 2 exchange.server=sharded optim=adamw accumulate=2
same 'late messages' 3 exchange.server=sharded optim=momentum comm.fault=jitter:seconds=0.02

rm -rf "$folder/parts"
set -- exchange.server=sharded optim=adamw
same 'shards, adamw' 3 "$@"
train parts 3 3 exchange.schedule=wall train.stop=5 "$@" || die "parts: $(cat "$folder/out")"
train parts 3 3 exchange.schedule=wall "$@" || die "parts: $(cat "$folder/out")"
[ "$(sums wall)" = "$(sums parts)" ] || die "stopped and gone on with, it ends in other bits"

# Statistics, so with executors of their own; a gradient in bf16 that read what was in memory beside it.
net="model=resnet18 model.width=4 model.classes=10 image=16"
same 'a small ResNet, bf16' 2 exchange.server=sharded optim=adamw precision=bf16
