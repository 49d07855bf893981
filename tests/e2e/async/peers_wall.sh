# Workers with weights of their own by the wall clock: rank 0 gives the order of their turns
# and records it; a run that follows the record on any number of ranks ends in the same bits;
# also after it was stopped, with late messages, and when steps pass without a meeting. Rounds:
# 6, one for each policy, in `make test`; 20 with ROUNDS=20.
# deadline: 600
set -eu
. tests/script_begin

# train RUN RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    "$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=16 optim.lr=0.05 \
        optim=momentum optim.schedule=cosine run="$run" train.steps=8 checkpoint.every=4 threads=1 log.every=4 \
        exchange.replicas=4 -n "$ranks" "$@" >"$folder/out" 2>&1
}

sums() {
    cat "$folder/$1"/checkpoints/step-00000008/*.safetensors | cksum
    sed -n 's/.*"\(train\|val\)\/loss":\([^,}]*\).*/\1 \2/p' "$folder/$1/metrics.jsonl"
}

round=0
while [ $round -lt "${ROUNDS:-6}" ]; do
    round=$((round + 1))
    case $((round % 6)) in
    0) set -- exchange.policy=local exchange.every=2 exchange.optim=nesterov exchange.optim_lr=0.5 ;;
    1) set -- exchange.policy=adpsgd checkpoint.every=8 log.every=100 ;;
    2) set -- exchange.policy=gosgd exchange.probability=0.4 optim=adamw ;;
    3) set -- exchange.policy=malt exchange.push=gradient ;;
    4) set -- exchange.policy=easgd exchange.every=2 comm.fault=jitter ;;
    *) set -- exchange.policy=malt exchange.graph=ring checkpoint.every=8 log.every=100 model.width=512 ;;
    esac
    rm -rf "$folder/wall" "$folder/again"
    train wall 4 exchange.schedule=wall "$@" || die "wall $*: $(cat "$folder/out")"
    list=$folder/wall/schedule.txt
    [ "$(wc -l <"$list")" = 32 ] || die "$*: the record has not 32 deliveries: $(cat "$list")"
    train again $((round % 2 + 1)) "$@" comm.fault= exchange.schedule="$list" || die "again $*: $(cat "$folder/out")"
    [ "$(sums wall)" = "$(sums again)" ] || die "$*: the record ends in other bits"
done

# A run by the wall clock goes on, and its record is of all of it; stopped, that is followed, too.
set -- exchange.policy=adpsgd exchange.graph=bipartite
train two 4 exchange.schedule=wall "$@" train.stop=4 || die "two: $(cat "$folder/out")"
train two 2 exchange.schedule=wall "$@" || die "two: $(cat "$folder/out")"
train three 1 exchange.schedule="$folder/two/schedule.txt" "$@" || die "three: $(cat "$folder/out")"
[ "$(sums two)" = "$(sums three)" ] || die "a run that went on has another record"
train parts 2 exchange.schedule="$folder/two/schedule.txt" "$@" train.stop=4 || die "parts: $(cat "$folder/out")"
train parts 4 exchange.schedule="$folder/two/schedule.txt" "$@" || die "parts: $(cat "$folder/out")"
[ "$(sums two)" = "$(sums parts)" ] || die "stopped, the record ends in other bits"
