# What the program prints when all is well: help, JSON, pipes that close early.
# deadline: 240
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

die() {
    echo "$1"
    exit 1
}

"$TUTTI" --version | grep -qx 'tutti [0-9.]*' || die 'tutti --version'
"$TUTTI" --help | grep -q '^  bench ' || die 'tutti --help'
for word in -V version; do
    [ "$("$TUTTI" $word)" = "$("$TUTTI" --version)" ] || die "tutti $word"
done
[ "$("$TUTTI" help train)" = "$("$TUTTI" train --help)" ] || die 'tutti help train'
[ "$("$TUTTI" help)" = "$("$TUTTI" --help)" ] || die 'tutti help'
"$TUTTI" help optim.beta1 | grep -q 'optim.beta1=0.9.*from 0 to 1' ||
    die 'tutti help of a setting'
for setting in model.layers model.kv_heads optim.beta1 optim.nesterov data.label \
    data.path train.steps mesh.tensor comm.deadline batch; do
    "$TUTTI" list settings | grep -q "^$setting " ||
        die "tutti list settings does not name $setting"
done
"$TUTTI" list settings 'optim.*' >"$folder/out"
grep -qv '^optim\.' "$folder/out" && die 'list settings of a pattern has others'
grep -q '^optim.beta1 ' "$folder/out" || die 'list settings of a pattern'
"$TUTTI" list settings lr_scale | grep -q '^optim.lr_scale ' || die 'list of a part'
for command in plan list check bench; do
    "$TUTTI" $command --help | grep -q "^usage: tutti $command" ||
        die "tutti $command --help"
    "$TUTTI" $command --help | grep -q -- --json ||
        die "tutti $command --help does not speak of --json"
done
status=0
"$TUTTI" >"$folder/out" 2>"$folder/err" || status=$?
[ $status -eq 2 ] && [ ! -s "$folder/out" ] || die 'tutti alone'

# A reader that has seen enough ends the program quietly.
for words in 'plan model=gpt2-124m --steps' 'list ops --json' 'list models'; do
    # shellcheck disable=SC2086
    { "$TUTTI" $words 2>"$folder/err" || true; } | head -n 1 >/dev/null
    [ ! -s "$folder/err" ] || die "tutti $words | head: $(cat "$folder/err")"
done

if ! command -v python3 >/dev/null; then
    echo "python3 is not installed"
    exit 77
fi

# json WORD... - standard output is one JSON value.
json() {
    "$TUTTI" "$@" --json >"$folder/out"
    python3 -m json.tool "$folder/out" >/dev/null || die "tutti $*: not JSON"
}

# has KEY... - the JSON object has the keys.
has() {
    for key in "$@"; do
        grep -q "\"$key\":" "$folder/out" || die "$key is missing"
    done
}

for kind in models ops optimisers settings sources passes backends laws commands; do
    json list $kind
done
json check cost only=gelu
json plan model=gpt2-124m batch=4 seq=64
has parameters parameter_bytes gradient_bytes optimiser_bytes activation_bytes \
    scratch_bytes peak_bytes flops work depth parallelism
json bench gemm m=64 n=64 k=64
small='threads=1 steps=2 warmup=1'
# shellcheck disable=SC2086
json bench step model=gpt model.layers=1 model.width=16 model.heads=2 \
    model.vocab=50 batch=2 seq=8 trace="$folder/trace.json" $small
has ms_per_step tokens_per_s gflops gemm_fraction overhead_fraction \
    peak_bytes_predicted peak_bytes_used rss_growth_bytes loss
python3 -m json.tool "$folder/trace.json" >/dev/null || die 'the trace is no JSON'
# shellcheck disable=SC2086
json bench step model=lenet batch=2 image=28 $small
has images_per_s
json bench op model=lenet batch=2 threads=1 steps=1
