# Proxies by the wall clock: sums are taken in the order in which they come, and the record of
# that ends in the same bits on 1, 2 and 4 ranks: with proxies on ranks of their workers and
# groups over several ranks, one server, shards, and servers on ranks of their own; also
# where a run was stopped in between, gradients are refused or coded, or messages are late. Rounds: 1 in
# `make test`, more with ROUNDS.
# deadline: 300
set -eu
. tests/script_begin

# train RUN RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    "$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=16 optim.lr=0.05 \
        optim=momentum run="$run" train.steps=4 checkpoint.every=2 threads=1 log.every=2 \
        exchange.policy=ps exchange.replicas=8 -n "$ranks" "$@" >"$folder/out" 2>&1
}

# What is left of a run: states, and metrics but for times.
sums() {
    cat "$folder/$1"/checkpoints/step-00000004/*.safetensors | cksum
    sed -n 's/.*"\(train\|val\)\/loss":\([^,}]*\).*/\1 \2/p' "$folder/$1/metrics.jsonl"
    sed -n 's/.*"workers\/refused":\([^,}]*\).*/refused \1/p' "$folder/$1/metrics.jsonl"
}

# repeats RANKS SETTINGS... - the record of `wall` on so many ranks.
repeats() {
    on=$1
    shift
    rm -rf "$folder/again"
    train again "$on" exchange.schedule="$folder/wall/schedule.txt" "$@" || die "again on $on, $*: $(cat "$folder/out")"
    [ "$(sums wall)" = "$(sums again)" ] || die "$*: the record ends in other bits on $on ranks"
}

# wall RANKS "HOW" SETTINGS... - by the wall clock, HOW too; and repeated without that.
wall() {
    on=$1 how=$2
    shift 2
    rm -rf "$folder/wall"
    # shellcheck disable=SC2086 # words
    train wall "$on" exchange.schedule=wall $how "$@" || die "wall on $on, $how $*: $(cat "$folder/out")"
    [ "$(wc -l <"$folder/wall/schedule.txt")" = 32 ] ||
        die "$*: the record has not 32 deliveries: $(cat "$folder/wall/schedule.txt")"
}

round=0
while [ $round -lt "${ROUNDS:-1}" ]; do
    round=$((round + 1))
    for clock in async bsp ssp softsync backup quorum delay value essp; do
        wall 4 "" exchange.proxies=2 exchange.clock=$clock
        repeats 1 exchange.proxies=2 exchange.clock=$clock
    done
    set -- exchange.proxies=2 exchange.clock=quorum optim.clip=0.1
    wall 4 exchange.server=sharded "$@"
    repeats 2 "$@"
    repeats 4 exchange.server=sharded "$@"
    wall 4 "exchange.servers=2 exchange.server=sharded" "$@" exchange.staleness=predict
    repeats 1 "$@" exchange.staleness=predict
    set -- exchange.proxies=4 exchange.staleness=compensate
    wall 3 exchange.servers=1 "$@"
    repeats 2 "$@"
    wall 1 "" "$@"
    repeats 4 "$@"
    set -- exchange.proxies=2 exchange.codec=onebit
    wall 4 exchange.server=sharded "$@"
    repeats 2 "$@"
    wall 4 comm.fault=jitter:seconds=0.002 exchange.proxies=1 exchange.limit=1.2
    repeats 2 exchange.proxies=1 exchange.limit=1.2
    grep -q ' 1$' "$folder/wall/schedule.txt" || die "no gradient was refused: $(cat "$folder/wall/schedule.txt")"
done

# Each group is one stretch of the record.
wall 4 "" exchange.proxies=2
awk '{ print int($1 / 4), $1 % 4 }' "$folder/wall/schedule.txt" | awk '
    (NR - 1) % 4 != $2 || ($2 > 0 && $1 != group) { exit 1 } { group = $1 }' ||
    die "members of a group are apart: $(cat "$folder/wall/schedule.txt")"
grep -q "2 proxies pushed 8 sums" "$folder/out" || die "the end does not name the proxies: $(cat "$folder/out")"

# The server hears sums alone: 8 pushes of 32 gradients, and the bytes of 8.
python3 - "$folder/wall/workers.json" <<'TEXT' || die "the server's load: $(cat "$folder/wall/workers.json")"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["server"]["pushes"] == 8 and r["server"]["proxies"] == 2, r["server"]
assert 4 * r["server"]["bytes_in"] == sum(w["bytes_up"] for w in r["workers"]), r
TEXT

# A proxy for each worker, and one for all.
wall 2 "" exchange.proxies=8
repeats 1
wall 2 "" exchange.proxies=1
cp -r "$folder/wall" "$folder/one"
rm -rf "$folder/wall"
train wall 1 exchange.clock=bsp || die "bsp: $(cat "$folder/out")"
[ "$(sums wall)" = "$(sums one)" ] || die "one proxy for all is not bsp"

# Stopped, on other ranks, with late messages; workers that keep states of their own, and what codes leave out.
set -- exchange.proxies=4 exchange.optimiser=worker optim=adamw exchange.codec=topk
rm -rf "$folder/wall"
train wall 4 exchange.schedule=wall "$@" comm.fault=jitter:seconds=0.01 train.stop=2 || die "stopped: $(cat "$folder/out")"
train wall 2 exchange.schedule=wall "$@" exchange.server=sharded || die "goes on: $(cat "$folder/out")"
repeats 1 "$@"
rm -rf "$folder/again"
train again 4 exchange.schedule="$folder/wall/schedule.txt" "$@" train.stop=2 || die "repeated, stopped: $(cat "$folder/out")"
train again 2 exchange.schedule="$folder/wall/schedule.txt" "$@" || die "repeated, goes on: $(cat "$folder/out")"
[ "$(sums wall)" = "$(sums again)" ] || die "stopped while it repeats, a record ends in other bits"

# A worker that delivers twice before its group has.
printf '0 0.1 0\n0 0.2 0\n' >"$folder/twice"
train no 1 exchange.proxies=2 exchange.schedule="$folder/twice" && die "one that waits delivers"
grep -q "worker 0 delivers in line 2 while it waits" "$folder/out" || die "not said: $(cat "$folder/out")"
