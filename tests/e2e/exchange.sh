# Codes of gradients: a run that stops on 4 ranks goes on on 2 with the bits of one that
# did not stop, for every codec that can be had; other replicas are another run.
# deadline: 600
set -eu
. tests/script_begin

# train RUN RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    "$TUTTI" train examples/gpt-tiny.yaml run="$run" train.steps=8 optim=sgd \
        checkpoint.every=4 threads=1 -n "$ranks" "$@" >"$folder/out" 2>&1
}

sums() {
    (cd "$folder/$1/checkpoints/step-00000008" && cksum model.safetensors optim.safetensors)
}

tried=0
for codec in $("$TUTTI" list codecs | grep -o '^[a-z0-9]*'); do
    set -- exact=true exchange.replicas=4 exchange.codec=$codec
    if ! train "$codec-4" 4 "$@"; then
        grep -q 'would do\|exchange.codec=none' "$folder/out" || die "$codec: $(cat "$folder/out")"
        continue
    fi
    tried=$((tried + 1))
    train "$codec-42" 4 "$@" train.stop=4 || die "$codec: $(cat "$folder/out")"
    train "$codec-42" 2 "$@" || die "$codec: $(cat "$folder/out")"
    [ "$(sums "$codec-4")" = "$(sums "$codec-42")" ] ||
        die "$codec: 4 ranks, then 2, end in other bits"
done
[ $tried -ge 14 ] || die "only $tried codecs"

# The residual is kept by replica.
"$TUTTI" inspect "$folder/topk-4/checkpoints/step-00000008/optim.safetensors" >"$folder/out"
grep -q 'h.0.attn.c_attn.weight.codec.residual *F32 *.4, 64, 192' "$folder/out" ||
    die "no residual by replica: $(cat "$folder/out")"

# What codes were: in the table, in ranks.json, in metrics.jsonl and on the page.
train measured 2 exchange.codec=topk || die "$(cat "$folder/out")"
grep -q 'codes: on average a rank made .* times less' "$folder/out" ||
    die "nothing about codes: $(cat "$folder/out")"
grep -q '"raw_bytes": *3399680' "$folder/measured/ranks.json" ||
    die "gradients of 8 steps are 8 x 424960 bytes: $(cat "$folder/measured/ranks.json")"
grep -q '"codec/raw_bytes":424960,"codec/bytes":[0-9]*,.*"codec/residual":' \
    "$folder/measured/metrics.jsonl" || die "$(cat "$folder/measured/metrics.jsonl")"
grep -q 'bytes sent by a rank' "$folder/measured/report.html" ||
    die "no axis of bytes"

# Left out, replicas are the ranks: on other ranks it is another run.
train usual 4 exchange.codec=topk || die "usual: $(cat "$folder/out")"
train usual 2 exchange.codec=topk train.steps=12 && die "went on with other replicas"
grep -q 'exchange.replicas *4 *2' "$folder/out" || die "not said: $(cat "$folder/out")"
train usual 2 exchange.codec=topk exchange.replicas=4 train.steps=12 ||
    die "4 replicas on 2 ranks: $(cat "$folder/out")"
