# Workers by the wall clock: the order of deliveries is recorded, and a run that follows the
# record on any number of ranks ends in the same bits; also after it was stopped. Rounds: 2
# in `make test`, 20 with ROUNDS=20.
# deadline: 600
set -eu
. tests/script_begin

# train RUN RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    "$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=16 optim.lr=0.05 \
        optim=momentum run="$run" train.steps=8 checkpoint.every=4 threads=1 log.every=4 \
        exchange.policy=ps exchange.replicas=4 -n "$ranks" "$@" >"$folder/out" 2>&1
}

sums() {
    cat "$folder/$1"/checkpoints/step-00000008/*.safetensors | cksum
    sed -n 's/.*"\(train\|val\)\/loss":\([^,}]*\).*/\1 \2/p' "$folder/$1/metrics.jsonl"
}

round=0
while [ $round -lt "${ROUNDS:-2}" ]; do
    round=$((round + 1))
    case $((round % 4)) in
    0) set -- exchange.clock=ssp exchange.bound=1 ;;
    1) set -- exchange.clock=async exchange.staleness=compensate ;;
    2) set -- exchange.clock=quorum exchange.bound=2 ;;
    *) set -- exchange.clock=backup exchange.staleness=predict ;;
    esac
    rm -rf "$folder/wall" "$folder/again" "$folder/parts"
    [ $((round % 2)) = 0 ] || set -- "$@" exchange.server=sharded optim.clip=0.1
    train wall 4 exchange.schedule=wall "$@" || die "wall $*: $(cat "$folder/out")"
    list=$folder/wall/schedule.txt
    [ "$(wc -l <"$list")" = 32 ] || die "the record has not 32 deliveries: $(cat "$list")"
    train again $((round % 2 + 1)) exchange.schedule="$list" "$@" || die "again $*: $(cat "$folder/out")"
    [ "$(sums wall)" = "$(sums again)" ] || die "$*: the record ends in other bits"
done
train parts 2 exchange.schedule="$list" "$@" train.stop=4 || die "parts: $(cat "$folder/out")"
train parts 4 exchange.schedule="$list" "$@" || die "parts: $(cat "$folder/out")"
[ "$(sums wall)" = "$(sums parts)" ] || die "$*: stopped, the record ends in other bits"

# A run by the wall clock goes on, and its record is of all of it.
train two 4 exchange.schedule=wall train.stop=4 || die "two: $(cat "$folder/out")"
train two 4 exchange.schedule=wall || die "two: $(cat "$folder/out")"
train three 1 exchange.schedule="$folder/two/schedule.txt" || die "three: $(cat "$folder/out")"
[ "$(sums two)" = "$(sums three)" ] || die "a run that went on has another record"

# Late messages at a checkpoint: a gradient that was computed there was never pushed, and all stood still.
for clock in bsp ssp; do
    train late 3 exchange.schedule=wall exchange.clock=$clock exchange.replicas=3 batch=12 checkpoint.every=2 comm.fault=jitter:seconds=0.02 ||
        die "late, $clock: $(cat "$folder/out")"
    rm -rf "$folder/late"
done

# Shards on ranks of their own; and beside workers, where they tell each other how far weights have moved.
for clock in bsp value; do
    set -- exchange.clock=$clock exchange.server=sharded
    rm -rf "$folder/shards" "$folder/beside" "$folder/flat"
    train shards 4 exchange.schedule=wall exchange.servers=2 "$@" || die "shards, $clock: $(cat "$folder/out")"
    train flat 1 exchange.schedule="$folder/shards/schedule.txt" "$@" || die "flat, $clock: $(cat "$folder/out")"
    [ "$(sums shards)" = "$(sums flat)" ] || die "$clock: with shards on ranks of their own the record ends in other bits"
    train beside 2 exchange.schedule=wall "$@" comm.fault=jitter:seconds=0.02 train.stop=4 || die "beside, $clock: $(cat "$folder/out")"
    train beside 4 exchange.schedule=wall "$@" || die "beside, $clock: $(cat "$folder/out")"
    rm -rf "$folder/flat"
    train flat 2 exchange.schedule="$folder/beside/schedule.txt" "$@" || die "flat, $clock: $(cat "$folder/out")"
    [ "$(sums beside)" = "$(sums flat)" ] || die "$clock: with shards beside workers the record ends in other bits"
done

# A server on a rank of its own.
train own 3 exchange.schedule=wall exchange.servers=1 || die "own: $(cat "$folder/out")"
train none 2 exchange.schedule="$folder/own/schedule.txt" || die "none: $(cat "$folder/out")"
[ "$(sums own)" = "$(sums none)" ] || die "with a server on a rank of its own the record ends in other bits"
train alike 3 exchange.schedule="$folder/own/schedule.txt" exchange.servers=1 || die "alike: $(cat "$folder/out")"
[ "$(sums own)" = "$(sums alike)" ] || die "with a server on a rank of its own the record is not repeated"

train short 1 exchange.schedule="$folder/two/schedule.txt" train.steps=9 && die "too short, and not refused"
grep -q 'ends after 32 deliveries' "$folder/out" || die "not said: $(cat "$folder/out")"

# A file that is not there is refused before the run has a folder's contents, also by --dry-run.
for more in "" --dry-run; do
    rm -rf "$folder/typo"
    train typo 2 exchange.schedule=wal $more && die "a schedule that is not there is not refused $more"
    grep -q 'exchange.schedule=wal is neither seeded nor wall' "$folder/out" || die "not said: $(cat "$folder/out")"
    [ ! -e "$folder/typo/metrics.jsonl" ] || die "a schedule that is not there has left a run"
done
