# Every policy without a server: with one of four workers at half speed the others lose nothing;
# a run of which a rank is killed goes on and ends in the bits of one that was left alone.
# Federations too; and workers that share weights go on after a kill.
# deadline: 300
set -eu
. tests/script_begin

# begin RUN SETTINGS... - on 2 ranks, in the background: $pid.
begin() {
    run=$folder/$1
    shift
    "$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=16 optim.lr=0.05 optim=momentum \
        run="$run" train.steps=$steps checkpoint.every=100 threads=1 log.every=100 \
        exchange.replicas=4 -n 2 "$@" >"$folder/out" 2>&1 &
    pid=$!
}

states() {
    cat "$folder/$1/checkpoints/$(printf 'step-%08d' $steps)"/*.safetensors | cksum
}

# kill_rank RUN - after its first checkpoint.
kill_rank() {
    tries=0
    while ! ls -d "$folder/$1"/checkpoints/step-* >"$folder/list" 2>&1 && [ $tries -lt 1000 ]; do
        tries=$((tries + 1))
        sleep 0.02
    done
    ranks=$(pgrep -P "$pid") || die "$*: there are no ranks: $(cat "$folder/out")"
    kill -9 "${ranks##*
}"
    wait "$pid" && die "$*: a run whose rank was killed has ended well"
    grep -q 'rank 1.* killed by signal 9' "$folder/out" || die "$*: it is not said who was killed: $(cat "$folder/out")"
}

# Gradients per time, as a part of the sum of speeds.
used() {
    python3 - "$folder/$1/workers.json" <<'TEXT'
import json, sys
w = json.load(open(sys.argv[1]))
part = w["gradients"] / w["time"] / 3.5
sys.exit(0 if part > 0.85 else f"{part:.0%} of the speeds")
TEXT
}

for policy in adpsgd 'gosgd exchange.probability=0.4' malt easgd local federated; do
    steps=800 pace=trial.pace=1,1,1,0.5
    # shellcheck disable=SC2086 # settings of a policy
    set -- exchange.policy=$policy $pace
    [ "$policy" != federated ] || set -- exchange.policy=federated exchange.local_steps=2
    rm -rf "$folder/alone" "$folder/killed"
    begin alone "$@"
    wait "$pid" || die "$policy: $(cat "$folder/out")"
    [ "$policy" = federated ] || used alone || die "$policy: one slow worker holds the others up"
    begin killed "$@"
    kill_rank killed
    begin killed "$@"
    wait "$pid" || die "$policy, going on: $(cat "$folder/out")"
    [ "$(states alone)" = "$(states killed)" ] || die "$policy: killed, it ends in other bits"
done

steps=4000
begin hog exchange.policy=hogwild
kill_rank hog
begin hog exchange.policy=hogwild
wait "$pid" || die "hogwild, going on: $(cat "$folder/out")"
grep -q "done at step $steps" "$folder/out" || die "hogwild has not gone on: $(cat "$folder/out")"
