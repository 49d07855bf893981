# Proxies between workers and the server (exchange.proxies), by the seeded clock: one hash on 1, 2
# and 4 ranks, also stopped and resumed elsewhere; a proxy for each worker is no proxy, one for
# all under bsp is bsp; the server hears W / P times less; what has no meaning is refused.
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

states() {
    cat "$folder/$1"/checkpoints/step-00000004/*.safetensors | cksum
}

# What is left of a run: states, and metrics but for times.
sums() {
    states "$1"
    cksum <"$folder/$1/checkpoints/step-00000004/exchange.bin"
    sed -n 's/.*"\(train\|val\)\/loss":\([^,}]*\).*/\1 \2/p' "$folder/$1/metrics.jsonl"
}

# same SETTINGS... - on 1 and 4 ranks, sharded; and stopped after 2 steps on 2 ranks.
same() {
    rm -rf "$folder/one" "$folder/many" "$folder/parts"
    train one 1 "$@" || die "$*: $(cat "$folder/out")"
    train many 4 exchange.server=sharded "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums many)" ] || die "$*: 4 ranks end in other bits than 1"
    train parts 2 "$@" train.stop=2 || die "$*: $(cat "$folder/out")"
    train parts 1 "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums parts)" ] || die "$*: stopped on 2 ranks, on 1 it ends in other bits"
}

# is SETTINGS... -- SETTINGS... - both end in the same states.
is() {
    left=
    while [ "$1" != -- ]; do
        left="$left $1"
        shift
    done
    shift
    rm -rf "$folder/left" "$folder/right"
    # shellcheck disable=SC2086 # words
    train left 1 $left || die "$left: $(cat "$folder/out")"
    train right 2 "$@" || die "$*: $(cat "$folder/out")"
    [ "$(states left)" = "$(states right)" ] || die "$left is not $*"
}

for clock in async bsp ssp softsync backup quorum delay value essp; do
    same exchange.proxies=4 exchange.clock=$clock
done
# A group on two ranks; rules about old sums; other pushes than gradients.
same exchange.proxies=2 exchange.staleness=compensate exchange.pause=0.2
same exchange.proxies=4 exchange.staleness=reject exchange.reject=1 exchange.delay=0.4
same exchange.proxies=4 exchange.staleness=predict exchange.optimiser=worker optim=adamw
same exchange.proxies=4 exchange.local_steps=2 exchange.clock=bsp exchange.gather=median
same exchange.proxies=2 exchange.limit=1.2
# Codes are for the proxy, which decodes them; what they leave out stays with the workers.
same exchange.proxies=2 exchange.codec=topk exchange.limit=1.2
same exchange.proxies=4 exchange.codec=powersgd exchange.clock=quorum exchange.staleness=lr

is exchange.delay=0 -- exchange.delay=0 exchange.proxies=8
is exchange.delay=0 exchange.clock=ssp -- exchange.delay=0 exchange.clock=ssp exchange.proxies=8
is exchange.clock=bsp -- exchange.clock=bsp exchange.proxies=1
is exchange.delay=0 exchange.codec=onebit -- exchange.delay=0 exchange.codec=onebit exchange.proxies=8
is exchange.clock=bsp -- exchange.clock=async exchange.proxies=1

# number RUN KEY - of the server, in workers.json.
number() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["server"][sys.argv[2]])' \
        "$folder/$1/workers.json" "$2"
}
rm -rf "$folder/none" "$folder/two"
train none 1 exchange.clock=bsp || die "bsp: $(cat "$folder/out")"
train two 1 exchange.clock=bsp exchange.proxies=2 || die "proxies: $(cat "$folder/out")"
for key in pushes answers bytes_in bytes_out; do
    [ "$(number none $key)" -eq $(($(number two $key) * 4)) ] ||
        die "$key: $(number none $key) without proxies, $(number two $key) with 2 of 8 workers"
done
grep -q "2 proxies pushed 8 sums" "$folder/out" || die "the end does not name the proxies: $(cat "$folder/out")"

# refused WORDS SETTINGS... - in a sentence with these words.
refused() {
    words=$1
    shift
    rm -rf "$folder/no"
    train no 1 "$@" && die "$* runs"
    grep -q "$words" "$folder/out" || die "$*: $(cat "$folder/out")"
}
refused "exchange.proxies=2 would do" exchange.proxies=3
refused "exchange.proxies=8 would do" exchange.proxies=9
refused "exchange.clock=quorum would do" exchange.proxies=2 exchange.clock=absp accumulate=2
refused "of 2 proxies leaves no majority" exchange.proxies=2 exchange.clock=bsp exchange.gather=median
