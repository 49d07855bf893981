# Ranks on GPUs without a GPU: the emulated device, shared by ranks or one for each, and an
# emulated NCCL.
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

# Ranks that share a device, by way of the host's memory; ranks with devices of their own,
# by links. Operators, flights with and without stages, layouts, training.
for gpus in 1 9; do
    for law in wire flight device_coll; do
        EMULATED_GPUS=$gpus "$program" check $law device=cuda >"$folder/out" 2>&1 ||
            die "$gpus GPUs: $(head -20 "$folder/out")"
    done
done
for gpus in 1 4; do
    EMULATED_GPUS=$gpus tests/gpu/layouts -s 5 "$program" threads=1 >"$folder/out" 2>&1 ||
        die "$gpus GPUs: $(grep -v ' ok$' "$folder/out")"
    [ "$(grep -c ' ok$' "$folder/out")" -ge 5 ] || die "too few layouts: $(cat "$folder/out")"
done
# Sequences in two runs: nothing of a step is done by the host, and two ranks = one.
for model in gpt llama; do
    for settings in 'precision=fp32 --rank 0' 'precision=fp32 --rank 1' 'precision=bf16'; do
        # shellcheck disable=SC2086
        "$program" plan examples/$model-tiny.yaml device=cuda mesh.context=2 $settings \
            --steps >"$folder/out" 2>&1 || die "$(cat "$folder/out")"
        grep -q ' cuda\.attention_grad' "$folder/out" || die "no steps: $model $settings"
        if grep ' ref\.' "$folder/out"; then die "by the host: $model $settings"; fi
    done
    "$program" verify examples/$model-tiny.yaml device=cuda precision=fp32 -n 2 \
        mesh.context=2 threads=1 >"$folder/out" 2>&1 || die "$(cat "$folder/out")"
done
tiny="examples/gpt-tiny.yaml device=cuda model.layers=1 -n 2"
# shellcheck disable=SC2086
for gpus in 1 2; do
    EMULATED_GPUS=$gpus "$program" train $tiny zero=3 train.steps=2 eval.batches=1 \
        run="$folder/ranks-$gpus" >"$folder/out" 2>&1 || die "$(cat "$folder/out")"
    grep -q "$([ $gpus = 1 ] && echo 'by way of the host: ranks 0 and 1 share' ||
        echo 'GPUs by nccl')" "$folder/out" || die "how is not said: $(cat "$folder/out")"
done
# Copies of parts leave a device while steps run; they are what is gathered while all
# wait.
for gpus in 1 2; do
    for way in 0 1; do
        # shellcheck disable=SC2086
        EMULATED_GPUS=$gpus "$program" train $tiny zero=3 train.steps=3 data.holdout=0 \
            checkpoint.every=1 checkpoint.keep=3 checkpoint.memory=$way \
            run="$folder/parts-$gpus-$way" >"$folder/out" 2>&1 || die "$(cat "$folder/out")"
    done
    for file in step-00000001/model step-00000002/optim step-00000003/optim; do
        cmp "$folder/parts-$gpus-0/checkpoints/$file.safetensors" \
            "$folder/parts-$gpus-1/checkpoints/$file.safetensors" ||
            die "$gpus GPUs: $file is not what was gathered"
    done
done
# shellcheck disable=SC2086
"$program" bench step $tiny mesh.tensor=2 warmup=0 steps=1 --json >"$folder/out" 2>&1 ||
    die "$(cat "$folder/out")"

refused() { # text settings
    text=$1
    shift
    if "$program" train $tiny run="$folder/refused" train.steps=2 "$@" >"$folder/out" 2>&1; then
        die "not refused: $*"
    fi
    grep -q "$text" "$folder/out" || die "$*: $(cat "$folder/out")"
    rm -rf "$folder/refused"
}
refused 'ranks 0 and 1 share a GPU' transport=nccl
refused 'there is 1 GPU here' device=cuda:1
refused 'transport=nccl is between GPUs' device=cpu transport=nccl
export EMULATED_BYTES=2000000
refused 'but 1.00 MB are available' batch=8
unset EMULATED_BYTES

# What goes wrong in NCCL ends the run, and the rank is named; so does what never comes.
export EMULATED_GPUS=2
export EMULATED_NCCL_FAIL=1:3
refused 'rank 1.*NCCL: remote process exited' transport=nccl
unset EMULATED_NCCL_FAIL
export EMULATED_NCCL_STUCK=1:3
refused 'nccl: rank [01]: all ranks wait, and nothing has moved' comm.deadline=1
export EMULATED_NCCL_STUCK=1:0
refused 'groups of devices: nccl' comm.deadline=1
