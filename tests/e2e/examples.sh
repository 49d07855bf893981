# Every example can be planned; the tiny ones train as they stand, and learn.
# deadline: 300
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder"

die() {
    echo "$1"
    exit 1
}

for file in examples/*.yaml; do
    "$TUTTI" plan "$file" | grep -q '^  peak ' || die "$file cannot be planned"
    grep -q '^data:' "$file" || die "$file has no data"
    grep -qE '^train.(steps|epochs):' "$file" || die "$file has no end"
done

# number KEY FILE - a number of a JSON object.
number() {
    sed "s/.*\"$1\": *\([-0-9.e+]*\).*/\1/" "$2"
}

for family in gpt llama vit resnet vgg lstm mlp lenet; do
    run=$folder/$family
    "$TUTTI" train examples/$family-tiny.yaml run="$run" threads=1 --json \
        >"$folder/out" 2>"$folder/err" ||
        die "$family-tiny does not train: $(cat "$folder/err")"
    loss=$(number val_loss "$folder/out")
    first=$(head -n 1 "$run/metrics.jsonl" | sed 's/.*"train\/loss":\([0-9.]*\).*/\1/')
    awk "BEGIN { exit !($loss > 0 && $loss < $first) }" ||
        die "$family-tiny does not learn: $first, then $loss"
    for name in config.yaml facts.json metrics.jsonl report.html \
        checkpoints/latest; do
        [ -s "$run/$name" ] || die "$family-tiny leaves no $name"
    done
done
loss=$("$TUTTI" bench step examples/lenet.yaml batch=8 threads=1 steps=1 \
    warmup=0 --json | sed 's/.*"loss": *\([0-9.e-]*\).*/\1/')
awk "BEGIN { exit !($loss > 2 && $loss < 2.6) }" ||
    die "the first loss of ten classes is $loss, not about 2.3"
