# Copies of a server's shards (exchange.chain), by the seeded clock: the states and losses of one
# rank without copies, on 2 and 4 ranks, also stopped and resumed with other chains and by the
# order of a run by the wall clock; what the server counts; what has no meaning is refused.
# deadline: 300
set -eu
. tests/script_begin

model="model=mlp model.layers=2 model.width=16 image=8"

# train RUN RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    # shellcheck disable=SC2086 # words
    "$TUTTI" train $model data=synthetic batch=16 optim.lr=0.05 \
        optim=momentum run="$run" train.steps=4 checkpoint.every=2 threads=1 log.every=2 \
        exchange.policy=ps exchange.replicas=8 -n "$ranks" "$@" >"$folder/out" 2>&1
}

# sums RUN BYTES - what is left of it: states, and metrics but for times; of exchange.bin all
# but so many bytes at its end.
sums() {
    at=$folder/$1/checkpoints/step-00000004
    cat "$at"/*.safetensors | cksum
    head -c -"$2" "$at/exchange.bin" | cksum
    sed -n 's/.*"\(train\|val\)\/loss":\([^,}]*\).*/\1 \2/p' "$folder/$1/metrics.jsonl"
}

# same SETTINGS... - with chains of 2 and of 3; then stopped with one of 4. Of 4 ranks the first has
# an empty shard, and copies of others. Where bytes were passed on, exchange.bin ends with their number.
same() {
    rm -rf "$folder/one" "$folder/two" "$folder/four" "$folder/parts"
    train one 1 "$@" || die "$*: $(cat "$folder/out")"
    train two 2 exchange.server=sharded exchange.chain=2 "$@" || die "$*: $(cat "$folder/out")"
    train four 4 exchange.server=sharded exchange.chain=3 "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one 0)" = "$(sums two 8)" ] || die "$*: a chain of 2 ends in other bits than one rank"
    [ "$(sums one 0)" = "$(sums four 8)" ] || die "$*: a chain of 3 ends in other bits than one rank"
    train parts 4 exchange.server=sharded exchange.chain=4 "$@" train.stop=2 || die "$*: $(cat "$folder/out")"
    train parts 2 exchange.server=sharded exchange.chain=2 "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one 0)" = "$(sums parts 8)" ] || die "$*: stopped on 4 ranks, on 2 it ends in other bits"
}

for clock in bsp ssp async value; do
    same exchange.clock=$clock
done
# What tails answer with, and what else is pushed.
same exchange.staleness=predict exchange.clock=quorum exchange.bound=3 exchange.pause=0.4 optim.clip=0.1
same exchange.staleness=compensate optim=adamw
same exchange.clock=quorum exchange.optimiser=worker optim=adamw exchange.codec=topk
same exchange.proxies=4 exchange.clock=softsync exchange.gather=median exchange.bound=3
# Ranks of their own; and on one rank again, without copies.
rm -rf "$folder/one" "$folder/own" "$folder/alone"
train one 1 exchange.clock=ssp || die "one: $(cat "$folder/out")"
train own 4 exchange.clock=ssp exchange.servers=2 exchange.server=sharded exchange.chain=2 || die "own: $(cat "$folder/out")"
[ "$(sums one 0)" = "$(sums own 8)" ] || die "copies at servers of their own end in other bits"
train alone 4 exchange.clock=ssp exchange.server=sharded exchange.chain=3 train.stop=2 || die "alone: $(cat "$folder/out")"
train alone 1 exchange.clock=ssp exchange.server=sharded exchange.chain=2 && die "2 copies on one rank run"
grep -q "2 ranks are to hold each shard, and 1 keeps weights; exchange.chain=1 would do" "$folder/out" ||
    die "one rank: $(cat "$folder/out")"
train alone 1 exchange.clock=ssp || die "alone: $(cat "$folder/out")"
[ "$(sums one 0)" = "$(sums alone 8)" ] || die "stopped with 3 copies, without any it ends in other bits"

# number RUN KEY - of the server, in workers.json.
number() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["server"][sys.argv[2]])' \
        "$folder/$1/workers.json" "$2"
}
# An update is 1482 numbers of 4 bytes, which each holder but the last passes on; half of the
# updates of `alone` had two to pass on to, the others none.
for key in bytes_in bytes_out; do
    [ "$(number own $key)" -eq $(($(number one $key) + 32 * 1482 * 4)) ] ||
        die "$key: $(number one $key) without copies, $(number own $key) with one of each shard"
    [ "$(number alone $key)" -eq $(($(number one $key) + 16 * 2 * 1482 * 4)) ] ||
        die "$key: $(number one $key) without copies, $(number alone $key) with two for half of the run"
done
[ "$(number own bytes_passed)" -eq $((32 * 1482 * 4)) ] || die "passed: $(number own bytes_passed)"
[ "$(number own chain)" -eq 2 ] || die "chain: $(number own chain)"
grep -q "2 ranks hold each shard of the weights" "$folder/own/log.txt" || die "the end does not name the chain"

# The order of a run by the wall clock can be repeated with copies.
train wall 2 exchange.schedule=wall || die "wall: $(cat "$folder/out")"
train again 4 exchange.schedule="$folder/wall/schedule.txt" exchange.server=sharded exchange.chain=3 ||
    die "again: $(cat "$folder/out")"
[ "$(cat "$folder"/wall/checkpoints/step-00000004/*.safetensors | cksum)" = \
    "$(cat "$folder"/again/checkpoints/step-00000004/*.safetensors | cksum)" ] || die "a recorded order ends in other bits"

# refused WORDS SETTINGS... - in a sentence with these words.
refused() {
    words=$1
    shift
    rm -rf "$folder/no"
    train no 4 "$@" && die "$* runs"
    grep -q "$words" "$folder/out" || die "$*: $(cat "$folder/out")"
}
refused "exchange.server=sharded would do" exchange.chain=2
refused "exchange.server=sharded would do" exchange.chain=2 exchange.servers=1 exchange.replicas=9 batch=18
refused "exchange.chain=4 would do" exchange.chain=5 exchange.server=sharded
refused "exchange.chain=2 would do" exchange.chain=3 exchange.server=sharded exchange.servers=2
refused "exchange.schedule=seeded" exchange.chain=2 exchange.server=sharded exchange.schedule=wall

# Statistics of batches are passed on too.
model="model=resnet model.depth=18 model.width=4 model.classes=7 image=16"
same exchange.clock=softsync
