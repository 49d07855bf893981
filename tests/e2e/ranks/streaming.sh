# Averages with a delay travel while steps run: over a slow link most of their time is hidden
# behind paced steps, which it is not without a delay. A run that is killed while one is on its
# way goes on from its last checkpoint, also on one rank, and ends with the bits of one that was
# left alone.
# deadline: 120
set -eu
. tests/script_begin

command -v python3 >/dev/null || {
    echo "python3 is not installed"
    exit 77
}

# run NAME WORDS... - parts of the weights after every other step, and a checkpoint while one
# is on its way.
run() {
    name=$1
    shift
    "$TUTTI" train examples/gpt-tiny.yaml threads=1 train.steps=24 log.every=12 \
        eval.every=0 checkpoint.every=6 checkpoint.keep=9 exchange.policy=average \
        exchange.replicas=2 exchange.every=4 exchange.parts=2 exact=true \
        run="$folder/$name" "$@" >"$folder/out" 2>"$folder/err"
}

for delay in 0 1; do
    run "delay-$delay" -n 2 exchange.delay=$delay comm.slow_rate=2e7 checkpoint.every=0 \
        trial.pace=0.5,0.5 ||
        die "delay $delay: $(cat "$folder/err")"
done
python3 - "$folder" <<'TEXT' || die 'a delay hides nothing'
import json, sys
def hidden(delay):
    ranks = json.load(open(f"{sys.argv[1]}/delay-{delay}/ranks.json"))["ranks"]
    return [r["hidden_seconds"] for r in ranks], [r["busy_seconds"] for r in ranks]
(before, _), (after, busy) = hidden(0), hidden(1)
print("hidden without and with a delay:", before, after, "of", busy)
assert min(after) > 0.3 * max(busy) and max(before) < 0.1 * max(busy), "not hidden"
TEXT

run alone -n 2 exchange.delay=1 || die "$(cat "$folder/err")"
last=checkpoints/step-00000024
for ranks in 2 1; do
    rm -rf "$folder/killed"
    mkdir "$folder/killed"
    run killed -n 2 exchange.delay=1 comm.slow_rate=2e6 &
    i=0
    until [ -d "$folder/killed/checkpoints/step-00000006" ]; do
        i=$((i + 1))
        [ $i -lt 600 ] || die "no checkpoint: $(cat "$folder/err")"
        sleep 0.05
    done
    pkill -KILL -f "run=$folder/killed" || die 'it was over'
    wait "$!" 2>/dev/null || true
    [ ! -d "$folder/killed/$last" ] || die 'it was not killed in time'
    run killed -n $ranks exchange.delay=1 ||
        die "going on with $ranks: $(cat "$folder/err")"
    grep -q resum "$folder/out" || die "it began anew: $(cat "$folder/out")"
    cmp "$folder/alone/$last/model.safetensors" \
        "$folder/killed/$last/model.safetensors" || die "$ranks ranks: other bits"
done
