# Recorded work gives the same bits as work that is launched anew, though step, rate,
# random numbers and skipped updates change: what a kernel is given by value would stay
# what it was when it was recorded.
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

number() {
    sed -n 's/.*, *"'"$2"'": *\([-+0-9.e]*\).*/\1/p' "$1"
}

# The last steps, replayed.
for graphs in true false; do
    "$program" bench step examples/gpt-tiny.yaml device=cuda precision=bf16 batch=4 \
        accumulate=2 model.layers=1 model.dropout=0.1 warmup=2 steps=2 graphs=$graphs \
        --json >"$folder/bench-$graphs"
done
[ "$(number "$folder/bench-true" replayed_fraction)" = 1 ] ||
    die "not all was replayed: $(cat "$folder/bench-true")"
[ "$(number "$folder/bench-false" replayed_fraction)" = 0 ] ||
    die "it was replayed: $(cat "$folder/bench-false")"
for what in loss norm; do
    [ "$(number "$folder/bench-true" $what)" = "$(number "$folder/bench-false" $what)" ] ||
        die "$what differs: $(cat "$folder/bench-true" "$folder/bench-false")"
done

# Whole runs: rates that change, updates that are skipped, evaluation in between.
train() { # name, settings...
    name=$1
    shift
    for graphs in true false; do
        "$program" train "$@" device=cuda graphs=$graphs run="$folder/$name-$graphs" \
            log.every=1 eval.batches=3 >"$folder/out" 2>&1 || die "$name: $(cat "$folder/out")"
    done
    for file in model optim; do
        last=$(cat "$folder/$name-true/checkpoints/latest")
        cmp "$folder/$name-true/checkpoints/$last/$file.safetensors" \
            "$folder/$name-false/checkpoints/$last/$file.safetensors" ||
            die "$name: $file differs"
    done
}
train gpt examples/gpt-tiny.yaml precision=bf16 batch=4 accumulate=2 model.layers=1 \
    model.dropout=0.1 optim.schedule=cosine optim.warmup=2 eval.every=3 train.steps=5
train lenet examples/lenet-tiny.yaml batch=2 optim=momentum optim.lr=1e6 \
    train.nan=skip train.steps=4
grep -q skipped "$folder/out" || die "nothing was skipped: $(cat "$folder/out")"

# The same device by its number goes on with a run.
go() {
    "$program" train examples/gpt-tiny.yaml batch=2 model.layers=1 train.steps=2 \
        run="$folder/go" "$@" >"$folder/out" 2>&1
}
go device=cuda train.stop=1 || die "$(cat "$folder/out")"
go device=cuda:0 || die "another number was another device: $(cat "$folder/out")"
! go device=cpu || die 'another device was none'
