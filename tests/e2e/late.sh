# exchange.chunks: sums of gradients end in the next step, and nothing that is computed
# changes: losses with a learning rate of its own in each step, a run that stops in the
# middle and goes on otherwise, and what is refused.
set -eu
. tests/script_begin

# train RUN SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1
    shift
    timeout 120 "$TUTTI" train examples/gpt-tiny.yaml run="$run" train.steps=12 \
        precision=fp64 optim.clip=0 optim.warmup=6 optim.schedule=cosine log.every=1 \
        eval.every=4 checkpoint.every=4 threads=1 "$@" -n 2 >"$folder/out" 2>&1
}

# losses RUN - of all steps and evaluations, in ten digits.
losses() {
    sed -n 's/.*"step":\([0-9]*\),.*\/loss":\([-0-9.e]*\).*/\1 \2/p' \
        "$folder/$1/metrics.jsonl" | LC_ALL=C awk '{ printf "%d %.10f\n", $1, $2 }'
}

train plain || die "$(cat "$folder/out")"
train late exchange.chunks=3 exchange.order=priority exchange.bucket=20k ||
    die "$(cat "$folder/out")"
[ "$(losses plain)" = "$(losses late)" ] || die "other losses: $(losses late)"
[ "$(losses plain | wc -l)" -ge 12 ] || die "too few losses: $(losses plain)"

# Steps that log nothing follow one another without a pause, and sums run on into the next.
evaluations() {
    sed -n 's/.*"step":\([0-9]*\),.*val\/loss":\([-0-9.e]*\).*/\1 \2/p' \
        "$folder/$1/metrics.jsonl" | LC_ALL=C awk '{ printf "%d %.10f\n", $1, $2 }'
}
train rare exchange.chunks=3 exchange.order=priority log.every=12 || die "$(cat "$folder/out")"
[ "$(evaluations plain)" = "$(evaluations rare)" ] || die "other losses: $(evaluations rare)"
[ "$(evaluations rare | wc -l)" -eq 3 ] || die "evaluations: $(evaluations rare)"

# A run that stops goes on with other chunks, or with none.
train turns exchange.chunks=2 train.stop=4 || die "$(cat "$folder/out")"
train turns exchange.chunks=4 zero=1 train.stop=8 || die "$(cat "$folder/out")"
train turns || die "$(cat "$folder/out")"
[ "$(losses plain)" = "$(losses turns)" ] || die "other losses: $(losses turns)"

# A signal that reaches one rank alone stops all after the same step.
timeout 120 "$TUTTI" train examples/gpt-tiny.yaml run="$folder/signal" train.steps=100000 \
    optim.clip=0 optim.warmup=0 log.every=5 checkpoint.every=0 threads=1 exchange.chunks=3 \
    -n 2 >"$folder/out" 2>&1 &
pid=$!
for _ in $(seq 100); do
    grep -q '"step":5,' "$folder/signal/metrics.jsonl" 2>/dev/null && break
    sleep 0.1
done
program=$(pgrep -P $pid) || die "it did not start: $(cat "$folder/out")"
kill -TERM "$(pgrep -P "$program" | tail -1)"
status=0
wait $pid || status=$?
[ $status -eq 3 ] || die "stopped with $status: $(cat "$folder/out")"
grep -q 'saved' "$folder/out" || die "not saved: $(cat "$folder/out")"

refused() {
    words=$1
    shift
    train refused exchange.chunks=2 "$@" && die "was not refused: $*"
    grep -q "$words" "$folder/out" || die "not said: $(cat "$folder/out")"
}
refused 'optim.clip=0 would do' optim.clip=1
refused 'exchange.codec=none would do' exchange.codec=topk
refused 'exchange.chunks=1 would do' exchange.policy=average
refused 'exchange.chunks=1 would do' mesh.pipe=2
refused 'exchange.chunks=1 would do' exchange.group=1 exchange.outer.policy=average
refused 'exact=true' exact=true
