# Workers with weights of their own, by the seeded clock: one hash on 1, 2 and 4 ranks for
# every policy; a run that is stopped and goes on elsewhere ends in the same bits; one worker
# is plain training; workers that never speak are the same under every policy.
# deadline: 300
set -eu
. tests/script_begin

# train RUN RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    "$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=16 optim.lr=0.05 \
        optim=momentum run="$run" train.steps=6 checkpoint.every=3 threads=1 log.every=2 \
        -n "$ranks" "$@" >"$folder/out" 2>&1
}

states() {
    cat "$folder/$1"/checkpoints/step-00000006/*.safetensors | cksum
}

losses() {
    sed -n 's/.*"\(train\|val\)\/loss":\([^,}]*\).*/\1 \2/p' "$folder/$1/metrics.jsonl"
}

# What is left of a run: states, what workers go on with, and metrics but for times.
sums() {
    states "$1"
    cksum <"$folder/$1/checkpoints/step-00000006/exchange.bin"
    losses "$1"
}

# same SETTINGS... - on 1 and 4 ranks; and stopped after 3 steps on 2 ranks.
same() {
    rm -rf "$folder/one" "$folder/many" "$folder/parts"
    train one 1 exchange.replicas=8 "$@" || die "$*: $(cat "$folder/out")"
    train many 4 exchange.replicas=8 "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums many)" ] || die "$*: 4 ranks end in other bits than 1"
    train parts 2 exchange.replicas=8 "$@" train.stop=3 || die "$*: $(cat "$folder/out")"
    train parts 1 exchange.replicas=8 "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums parts)" ] || die "$*: stopped on 2 ranks, on 1 it ends in other bits"
}

same exchange.policy=adpsgd
grep -q 'gradients in 48 updates' "$folder/out" || die "adpsgd does not say what it did: $(cat "$folder/out")"
[ -f "$folder/one/workers.json" ] || die "there is no workers.json"
same exchange.policy=adpsgd exchange.graph=bipartite optim=adamw
same exchange.policy=gosgd exchange.probability=0.4 exchange.pause=0.2
same exchange.policy=malt
same exchange.policy=malt exchange.push=gradient exchange.graph=ring exchange.every=2
same exchange.policy=easgd exchange.every=2
same exchange.policy=local exchange.every=2 exchange.optim=nesterov exchange.optim_lr=0.5 exchange.optim_momentum=0.5

# One worker is plain training.
train plain 1 optim.clip=0 || die "plain: $(cat "$folder/out")"
for policy in adpsgd gosgd malt; do
    rm -rf "$folder/one"
    train one 1 exchange.policy=$policy exchange.replicas=1 optim.clip=0 || die "$policy: $(cat "$folder/out")"
    [ "$(states one)" = "$(states plain)" ] || die "$policy with one worker is not plain training"
done

# Workers that never speak.
alone() {
    rm -rf "$folder/alone"
    train alone 1 exchange.replicas=4 "$@" || die "$*: $(cat "$folder/out")"
}
alone exchange.policy=gosgd exchange.probability=0
alone_states=$(states alone) alone_losses=$(losses alone | grep train)
alone exchange.policy=adpsgd exchange.every=1000
[ "$(states alone)" = "$alone_states" ] || die "adpsgd that never speaks is not gosgd that never does"
alone exchange.policy=malt exchange.every=1000
[ "$(states alone)" = "$alone_states" ] || die "malt that never speaks is not gosgd that never does"
alone exchange.policy=easgd exchange.alpha=0
[ "$(losses alone | grep train)" = "$alone_losses" ] || die "easgd with alpha=0 has not independent workers"

