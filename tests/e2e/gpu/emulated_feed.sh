# Batches that are on their way to a device while it computes: the same losses as on the
# CPU, and a run that stops and goes on has the same bits as one that does not.
# deadline: 600
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

train() { # name, settings...
    name=$1
    shift
    "$program" train "$@" run="$folder/$name" log.every=1 eval.batches=1 \
        >"$folder/out" 2>&1 || die "$name: $(cat "$folder/out")"
}
losses() {
    sed -n 's/.*"step": *\([0-9]*\).*"train.loss": *\([-+0-9.e]*\).*/\1 \2/p' \
        "$folder/$1/metrics.jsonl"
}

set -- examples/gpt-tiny.yaml batch=4 accumulate=2 model.layers=1 train.steps=5
train cpu "$@" device=cpu
train cuda "$@" device=cuda
losses cpu >"$folder/a"
losses cuda >"$folder/b"
[ "$(wc -l <"$folder/a")" -ge 5 ] || die "no losses: $(cat "$folder/cpu/metrics.jsonl")"
paste "$folder/a" "$folder/b" | awk '
    $1 != $3 || ($2 - $4) ^ 2 > (1e-4 * $2) ^ 2 { bad = 1 }
    END { exit bad }' || die "losses differ: $(paste "$folder/a" "$folder/b")"

train parts "$@" device=cuda train.stop=2
train parts "$@" device=cuda
last=$(cat "$folder/cuda/checkpoints/latest")
for file in model optim; do
    cmp "$folder/cuda/checkpoints/$last/$file.safetensors" \
        "$folder/parts/checkpoints/$last/$file.safetensors" || die "$file differs"
done

# Evaluation must find room beside training, before the first step.
peak=$("$program" plan examples/gpt-tiny.yaml device=cuda --json |
    sed -n 's/.*"peak_bytes": *\([0-9]*\).*/\1/p')
if EMULATED_BYTES=$((peak + 1000)) "$program" train examples/gpt-tiny.yaml device=cuda \
    train.steps=1 run="$folder/room" >"$folder/out" 2>&1; then
    die "it fitted: $(cat "$folder/out")"
fi
grep -q 'evaluating beside the training.*but 1[.0-9]* kB are available' "$folder/out" ||
    die "why it does not fit: $(cat "$folder/out")"
