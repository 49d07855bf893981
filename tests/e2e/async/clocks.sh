# Workers at their own pace, by the seeded clock: one hash on 1, 2 and 4 ranks for every
# clock and every rule about staleness; identities between clocks; a run that is stopped and
# goes on elsewhere ends in the same bits; a server with bsp is the all-reduce.
# deadline: 300
set -eu
. tests/script_begin

# train RUN RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    "$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=16 optim.lr=0.05 \
        optim=momentum run="$run" train.steps=4 checkpoint.every=2 threads=1 log.every=2 \
        exchange.replicas=8 -n "$ranks" "$@" >"$folder/out" 2>&1
}

# What is left of a run: states, and metrics but for times.
sums() {
    cat "$folder/$1"/checkpoints/step-00000004/*.safetensors "$folder/$1/checkpoints/step-00000004/exchange.bin" |
        cksum
    sed -n 's/.*"\(train\|val\)\/loss":\([^,}]*\).*/\1 \2/p' "$folder/$1/metrics.jsonl"
}

# same SETTINGS... - on 1 and 4 ranks, sharded; and stopped after 2 steps on 2 ranks.
same() {
    rm -rf "$folder/one" "$folder/many" "$folder/parts"
    train one 1 exchange.policy=ps "$@" || die "$*: $(cat "$folder/out")"
    train many 4 exchange.policy=ps exchange.server=sharded "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums many)" ] || die "$*: 4 ranks end in other bits than 1"
    train parts 2 exchange.policy=ps "$@" train.stop=2 || die "$*: $(cat "$folder/out")"
    train parts 1 exchange.policy=ps "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums parts)" ] || die "$*: stopped on 2 ranks, on 1 it ends in other bits"
}

clocks=$("$TUTTI" list policies ps | sed -n 's/.*clock.*\(async|[a-z|]*\).*/\1/p' | tr '|' ' ')
[ -n "$clocks" ] || clocks="async bsp ssp softsync backup quorum delay value essp absp"
for clock in $clocks; do
    case $clock in
    absp) same exchange.clock=absp batch=64 accumulate=4 exchange.spread=0.5 ;;
    *) same exchange.clock="$clock" ;;
    esac
    sums one >"$folder/sum.$clock"
done
for rule in lr compensate momentum reject predict; do
    same exchange.staleness=$rule exchange.reject=3
    cmp -s "$folder/sum.async" - <<END && die "staleness=$rule changes nothing"
$(sums one)
END
done
same exchange.clock=softsync exchange.bound=5 exchange.gather=trimmed exchange.pause=0.2
same exchange.clock=ssp exchange.local_steps=2 exchange.proximal=0.1

# Optimisers at workers.
for more in "optim=adamw exchange.clock=quorum" "exchange.local_steps=2 optim.clip=0.1" "exchange.clock=bsp exchange.codec=topk"; do
    # shellcheck disable=SC2086 # words
    same exchange.optimiser=worker $more
done

# Servers on ranks of their own have the same bits: one with 2 ranks of workers, two with 2.
for clock in async bsp value; do
    rm -rf "$folder/one" "$folder/own" "$folder/two"
    set -- exchange.policy=ps exchange.clock=$clock optim.clip=0.1
    train one 1 "$@" || die "$*: $(cat "$folder/out")"
    train own 3 "$@" exchange.servers=1 train.stop=2 || die "$* servers=1: $(cat "$folder/out")"
    train own 2 "$@" exchange.servers=1 || die "$* servers=1: $(cat "$folder/out")"
    train two 4 "$@" exchange.servers=2 exchange.server=sharded || die "$* servers=2: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums own)" ] || die "$*: a server of its own ends in other bits"
    [ "$(sums one)" = "$(sums two)" ] || die "$*: servers of their own end in other bits"
done

# is CLOCK SETTINGS... - the same states as that clock.
states() {
    cat "$folder/$1"/checkpoints/step-00000004/*.safetensors | cksum
}
train bsp 1 exchange.policy=ps exchange.clock=bsp || die "bsp: $(cat "$folder/out")"
train async 1 exchange.policy=ps || die "async: $(cat "$folder/out")"
is() {
    other=$1
    shift
    rm -rf "$folder/is"
    train is 1 exchange.policy=ps "$@" || die "$*: $(cat "$folder/out")"
    [ "$(states is)" = "$(states "$other")" ] || die "$* is not $other"
}
is bsp exchange.clock=ssp exchange.bound=0
is bsp exchange.clock=softsync exchange.bound=8
is async exchange.clock=ssp exchange.bound=1e9
train sooner 1 exchange.policy=ps exchange.delay=0 || die "async: $(cat "$folder/out")"
is sooner exchange.clock=essp exchange.bound=1e9 exchange.delay=0
train parted 1 exchange.policy=ps exchange.clock=bsp batch=64 accumulate=4 || die "bsp: $(cat "$folder/out")"
is parted exchange.clock=absp exchange.bound=8 batch=64 accumulate=4

# A server with bsp against the all-reduce, in 64 bits.
train ps 2 exchange.policy=ps exchange.clock=bsp exchange.server=sharded precision=fp64 optim.clip=0.1 ||
    die "fp64: $(cat "$folder/out")"
train sum 2 precision=fp64 optim.clip=0.1 || die "fp64: $(cat "$folder/out")"
# close RUN RUN - the same losses in 64 bits.
close() {
    for run in "$@"; do
        sed -n 's/.*"val\/loss":\([^,}]*\).*/\1/p' "$folder/$run/metrics.jsonl"
    done | awk 'NR == 1 { a = $1 } NR == 2 { d = a - $1; exit !(d * d <= 1e-18 * a * a) } END { exit NR != 2 }'
}
close ps sum || die "bsp and allreduce differ in 64 bits"
for optim in sgd momentum; do
    rm -rf "$folder/server" "$folder/worker"
    set -- exchange.policy=ps exchange.clock=bsp precision=fp64 optim=$optim
    train server 1 "$@" || die "fp64: $(cat "$folder/out")"
    train worker 2 "$@" exchange.optimiser=worker exchange.server=sharded || die "fp64: $(cat "$folder/out")"
    close server worker || die "$optim at workers and at the server differ in 64 bits"
done

# What has no meaning is refused in a sentence.
refused() {
    pattern=$1
    shift
    train no 2 exchange.policy=ps "$@" && die "$*: not refused"
    grep -q "$pattern" "$folder/out" || die "$*: $(cat "$folder/out")"
    grep -q 'would do' "$folder/out" || die "$*: it is not said what would do: $(cat "$folder/out")"
}
refused 'zero=0 would do, with exchange.server=sharded' zero=1
refused 'zero=1 has nothing to divide; zero=0 would do' zero=1 exchange.server=sharded
refused 'exchange.bound=-1 would do' exchange.clock=bsp exchange.bound=2
refused 'exchange.gather=mean would do' exchange.clock=absp exchange.gather=median batch=64 accumulate=4
refused 'optim.master=true would do' precision=bf16 optim.master=false
refused 'mesh.data=2 alone would do' mesh.tensor=2
refused 'no gradient is old; exchange.staleness=none would do' exchange.clock=bsp exchange.staleness=lr
refused 'optim=momentum would do' exchange.staleness=momentum optim=adamw
refused 'cannot be shared by 2 ranks' exchange.replicas=7 batch=14
refused 'batch=16 would do' exchange.replicas=8 batch=12
refused 'exchange.local_steps=1 would do' exchange.codec=factors exchange.local_steps=2
refused 'from 1 to 8.*exchange.bound=8 would do' exchange.clock=softsync exchange.bound=9
refused 'leaves none for workers; -n 3 would do' exchange.servers=2
refused 'exchange.clock=bsp would do' exchange.gather=median
refused 'changes are pushed' exchange.optimiser=worker exchange.staleness=compensate
refused 'accumulate=4 would do' exchange.clock=absp

"$TUTTI" verify examples/gpt-tiny.yaml exchange.policy=ps -n 2 >"$folder/out" 2>&1 && die "verify: not refused"
grep -q 'compare model.safetensors' "$folder/out" || die "verify: $(cat "$folder/out")"
"$TUTTI" verify examples/gpt-tiny.yaml exchange.policy=ps exchange.schedule=wall -n 2 >"$folder/out" 2>&1 &&
    die "verify by the wall clock: not refused"
grep -q 'each run has an order of its own' "$folder/out" || die "verify by the wall clock: $(cat "$folder/out")"
