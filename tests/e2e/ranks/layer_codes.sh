# Codes of what ranks that share layers send: fewer bytes, the same run when it goes on, and
# another run with another codec.
set -eu
. tests/script_begin

# train RUN SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1
    shift
    "$TUTTI" train examples/gpt-tiny.yaml run="$run" train.steps=6 checkpoint.every=3 threads=1 \
        mesh.tensor=2 -n 2 "$@" >"$folder/out" 2>&1
}

sums() {
    (cd "$folder/$1/checkpoints/step-00000006" && cksum model.safetensors optim.safetensors)
}

# bytes CODEC - that a rank sends in a step by the plan, but for losses and the norm, which
# have no codes: 4100.
bytes() {
    "$TUTTI" plan examples/gpt-tiny.yaml mesh.tensor=2 -n 2 layout.codec="$1" |
        awk '/^tensor/ { gsub(",", ""); print $5 - 4100 }'
}

none=$(bytes none)
[ "$(bytes bf16)" -eq $((none / 2)) ] || die "bf16: $(bytes bf16) of $none bytes"
# 68 bytes for a row of 64 numbers
[ "$(bytes int8)" -eq $((none * 17 / 64)) ] || die "int8: $(bytes int8) of $none bytes"

train natural layout.codec=natural || die "$(cat "$folder/out")"
# A step codes 10 activations and gradients of 8 x 32 x 64 numbers, 6 steps: in 68 bytes for 256.
grep -q '"raw_bytes": *3932160, *"coded_bytes": *1044480' "$folder/natural/ranks.json" ||
    die "what codes were: $(cat "$folder/natural/ranks.json")"
grep -q 'codes: on average a rank made .* (3.76 times less)' "$folder/out" || die "$(cat "$folder/out")"

train stopped layout.codec=natural train.stop=3 || die "$(cat "$folder/out")"
train stopped layout.codec=natural || die "$(cat "$folder/out")"
[ "$(sums natural)" = "$(sums stopped)" ] || die "stopped and gone on: other bits"

train stopped layout.codec=int8 train.steps=9 && die "went on with another codec"
grep -q 'layout.codec *natural *int8' "$folder/out" || die "not said: $(cat "$folder/out")"
train stopped layout.codec=natural layout.codec.block=64 train.steps=9 && die "went on with other blocks"
grep -q 'layout.codec.block' "$folder/out" || die "not said: $(cat "$folder/out")"

"$TUTTI" verify examples/gpt-tiny.yaml -n 2 mesh.tensor=2 layout.codec=int8 >"$folder/out" 2>&1 &&
    die "verified codes that lose something"
grep -q 'layout.codec=none verifies the layout' "$folder/out" || die "not said: $(cat "$folder/out")"

"$TUTTI" plan examples/gpt-tiny.yaml -n 2 layout.codec=int8 >"$folder/out" 2>&1 || die "$(cat "$folder/out")"
grep -q 'layout.codec=int8 does nothing' "$folder/out" || die "not said: $(cat "$folder/out")"
