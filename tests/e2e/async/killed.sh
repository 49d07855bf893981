# Killed with -9 somewhere and started again, a run of every policy whose workers go at their own pace (by the
# seeded clock), and of rounds, ends in the bits of one that was left alone.
# deadline: 300
set -eu
. tests/script_begin

# settings RUN POLICY... - of a run of 2 ranks.
settings() {
    run=$folder/$1
    shift
    set -- model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=16 optim.lr=0.05 optim=momentum \
        run="$run" train.steps=1000 checkpoint.every=100 threads=1 log.every=500 -n 2 "$@"
    printf '%s\n' "$@"
}

sums() {
    cat "$folder/$1"/checkpoints/step-00001000/*.safetensors "$folder/$1/checkpoints/step-00001000/exchange.bin" |
        cksum
}

# killed SETTINGS... - one left alone, and one that is killed when it has its first checkpoint of ten.
# A shell that waits for a process killed by signal 9 gets 137: else it had ended before.
killed() {
    rm -rf "$folder/alone" "$folder/killed"
    settings alone "$@" | xargs "$TUTTI" train >"$folder/out" 2>&1 || die "$*: $(cat "$folder/out")"
    # shellcheck disable=SC2046 # words
    "$TUTTI" train $(settings killed "$@") >"$folder/out" 2>&1 &
    pid=$!
    tries=0
    while ! ls "$folder/killed/checkpoints/" 2>/dev/null | grep -q step && [ $tries -lt 3000 ]; do
        tries=$((tries + 1))
        sleep 0.01
    done
    kill -9 $pid 2>/dev/null || die "$*: it had ended before it was killed: $(cat "$folder/out")"
    code=0
    wait $pid 2>/dev/null || code=$?
    [ $code = 137 ] || die "$*: it had ended before it was killed, with $code: $(cat "$folder/out")"
    [ ! -e "$folder/killed/checkpoints/step-00001000" ] || die "$*: it was killed after its last checkpoint"
    settings killed "$@" | xargs "$TUTTI" train >"$folder/out" 2>&1 || die "$*, again: $(cat "$folder/out")"
    [ "$(sums alone)" = "$(sums killed)" ] || die "$*: killed, it ends in other bits"
}

for policy in adpsgd gosgd malt easgd local; do
    killed exchange.policy=$policy exchange.replicas=4
done
killed exchange.policy=ps exchange.replicas=4 exchange.clock=quorum exchange.server=sharded
killed exchange.policy=ps exchange.replicas=4 exchange.codec=topk exchange.optimiser=worker
killed exchange.policy=federated exchange.replicas=4 exchange.fraction=0.5
killed exchange.policy=federated exchange.replicas=4 exchange.fraction=0.5 exchange.codec=topk
