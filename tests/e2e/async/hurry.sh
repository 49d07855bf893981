# exchange.clock=absp by the wall clock: the slow give the micro-batches that they have
# finished. The record says how many were left out; a run that follows it on any number of
# ranks ends in the same bits, and nobody waits for a whole gradient of the slowest.
# deadline: 300
set -eu
. tests/script_begin

# train RUN RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    "$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=32 accumulate=8 optim.lr=0.05 \
        optim=momentum run="$run" train.steps=8 checkpoint.every=4 threads=1 log.every=4 exchange.policy=ps \
        exchange.clock=absp exchange.bound=2 exchange.replicas=4 -n "$ranks" "$@" >"$folder/out" 2>&1
}

sums() {
    cat "$folder/$1"/checkpoints/step-00000008/*.safetensors | cksum
    sed -n 's/.*"\(train\|val\)\/loss":\([^,}]*\).*/\1 \2/p' "$folder/$1/metrics.jsonl"
}

# same WHAT RANKS RANKS SETTINGS... - a run by the wall clock, and its record on other ranks.
same() {
    what=$1 ranks=$2 others=$3
    shift 3
    rm -rf "$folder/wall" "$folder/again"
    train wall "$ranks" exchange.schedule=wall "$@" || die "wall, $what: $(cat "$folder/out")"
    list=$folder/wall/schedule.txt
    [ "$(wc -l <"$list")" = 32 ] || die "$what: the record has not 32 deliveries: $(cat "$list")"
    train again "$others" exchange.schedule="$list" "$@" || die "again, $what: $(cat "$folder/out")"
    [ -n "$(sums wall)" ] && [ "$(sums wall)" = "$(sums again)" ] || die "$what: the record ends in other bits"
}

# left_out - how many micro-batches are missing in the record.
left_out() {
    awk '{ n += $3 } END { print n + 0 }' "$folder/wall/schedule.txt"
}

pace=trial.pace=0.02,0.02,0.02,0.002
same 'one slow worker' 4 1 $pace
[ "$(left_out)" -gt 20 ] || die "the slow worker leaves out $(left_out) of 64 micro-batches: $(cat "$list")"
awk '$3 == 0 && $1 == 3 { whole++ } END { exit whole > 2 }' "$list" || die "the slow worker is waited for: $(cat "$list")"
same 'shards' 4 2 $pace exchange.server=sharded optim.clip=0.1
same 'codes' 4 2 $pace exchange.codec=onebit
same 'a server of its own' 3 2 exchange.servers=1
same 'two workers on a rank' 2 4 $pace exchange.server=sharded
same 'late messages' 4 1 comm.fault=jitter:seconds=0.02
same 'all are waited for' 2 1 exchange.bound=4
[ "$(left_out)" = 0 ] || die "micro-batches are left out though all are waited for: $(cat "$list")"

# Stopped, it goes on; its record is of all of it.
train parts 4 exchange.schedule=wall $pace train.stop=4 || die "parts: $(cat "$folder/out")"
train parts 4 exchange.schedule=wall $pace || die "parts: $(cat "$folder/out")"
train whole 2 exchange.schedule="$folder/parts/schedule.txt" || die "whole: $(cat "$folder/out")"
[ "$(sums parts)" = "$(sums whole)" ] || die "a run that went on has another record"

# A record with parts is no record of another clock.
train other 1 exchange.schedule="$list" exchange.clock=bsp exchange.bound=-1 || die "a record without parts: $(cat "$folder/out")"
rm -rf "$folder/other"
train other 1 exchange.schedule="$folder/parts/schedule.txt" exchange.clock=bsp exchange.bound=-1 && die "parts of gradients under bsp"
grep -q 'a part of a gradient: it was recorded under other settings' "$folder/out" || die "not said: $(cat "$folder/out")"
