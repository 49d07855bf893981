# Stages on GPUs without a GPU: the emulated device, shared by ranks or one for each, with
# an emulated NCCL. Schedules, ZeRO, tensor parallelism, recomputation and offload = one
# rank; recorded work has the same bits as work that is launched anew, in every slot.
# deadline: 900
set -eu
program=${TUTTI_BUILD:-build}/emulated/tutti
if [ ! -x "$program" ]; then
    echo 'the emulated device is part of the plain build alone'
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder/state" XDG_CACHE_HOME="$folder/cache"

die() {
    echo "$1"
    exit 1
}

small="device=cuda model.layers=4 threads=1 batch=8"
verify() { # ranks settings...
    n=$1
    shift
    for gpus in 1 "$n"; do
        # shellcheck disable=SC2086
        EMULATED_GPUS=$gpus "$program" verify examples/gpt-tiny.yaml $small precision=fp32 -n "$n" \
            "$@" >"$folder/out" 2>&1 || die "$gpus GPUs, $*: $(cat "$folder/out")"
        grep -q '^the same$' "$folder/out" || die "$gpus GPUs, $*: $(cat "$folder/out")"
    done
}
verify 2 mesh.pipe=2 accumulate=4 pipe.schedule=gpipe
verify 3 mesh.pipe=3 accumulate=4 pipe.schedule=zb-h1 offload=all
verify 4 mesh.pipe=2 accumulate=2 pipe.schedule=1f1b mesh.data=2 zero=3 recompute=full
verify 4 mesh.pipe=2 accumulate=4 pipe.chunks=2 mesh.tensor=2 offload=all

# Two values cross, and receives are posted ahead: links are asked for several at a time.
EMULATED_GPUS=2 "$program" verify examples/moe-tiny.yaml device=cuda threads=1 batch=8 \
    precision=fp32 -n 2 mesh.pipe=2 accumulate=4 pipe.schedule=message-driven \
    >"$folder/out" 2>&1 || die "moe: $(cat "$folder/out")"
grep -q '^the same$' "$folder/out" || die "moe: $(cat "$folder/out")"

# Two micro-batches are in flight on the first rank, so each piece is recorded for both.
for graphs in true false; do
    # shellcheck disable=SC2086
    "$program" train examples/gpt-tiny.yaml $small precision=bf16 -n 2 mesh.pipe=2 accumulate=4 \
        model.dropout=0.1 optim.schedule=cosine optim.warmup=2 train.steps=5 graphs=$graphs \
        eval.every=3 eval.batches=2 run="$folder/run-$graphs" log.every=1 >"$folder/out" 2>&1 ||
        die "graphs=$graphs: $(cat "$folder/out")"
done
for file in model optim; do
    last=$(cat "$folder/run-true/checkpoints/latest")
    cmp "$folder/run-true/checkpoints/$last/$file.safetensors" \
        "$folder/run-false/checkpoints/$last/$file.safetensors" || die "$file differs"
done
