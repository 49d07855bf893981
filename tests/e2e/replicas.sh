# Replicas with weights of their own: a run that stops on 4 ranks goes on on 2 with the bits
# of one that did not stop, for every policy; the model is what is evaluated; other replicas
# start from it, in a fork.
# deadline: 600
set -eu
. tests/script_begin

# train RUN RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    "$TUTTI" train examples/gpt-tiny.yaml run="$run" train.steps=8 \
        checkpoint.every=4 threads=1 -n "$ranks" "$@" >"$folder/out" 2>&1
}

sums() {
    (cd "$folder/$1/checkpoints/step-00000008" && cksum model.safetensors optim.safetensors)
}

cat >"$folder/table" <<END
average exchange.policy=average exchange.every=2
outer exchange.policy=average exchange.every=2 exchange.optim=nesterov
parts exchange.policy=average exchange.every=4 exchange.parts=2
late exchange.policy=average exchange.every=4 exchange.parts=2 exchange.delay=2 exchange.alpha=0.5 exchange.optim=nesterov
coded exchange.policy=average exchange.every=4 exchange.delay=2 exchange.codec=int8
residual exchange.policy=average exchange.every=2 exchange.codec=onebit
random exchange.policy=average exchange.every=3 exchange.delay=1 exchange.codec=randomk
adaptive exchange.policy=average exchange.every=3 exchange.adaptive=true optim.lr=0.01
partial exchange.policy=partial exchange.parts=3
told exchange.policy=partial exchange.parts=2 exchange.codec=topk
gaia exchange.policy=allreduce exchange.group=2 exchange.outer.policy=gaia exchange.outer.threshold=0.05
elastic exchange.policy=elastic exchange.every=2 exchange.momentum=0.5
centre exchange.policy=elastic exchange.every=1 exchange.codec=powersgd
gossip exchange.policy=gossip
turns exchange.policy=gossip exchange.graph=exponential exchange.turns=true
tracking exchange.policy=gossip exchange.tracking=true
push exchange.policy=gossip exchange.graph=arrows exchange.edges=0-1,1-2,2-3,3-0,0-2 exchange.push=true
factors exchange.policy=gossip exchange.codec=powersgd
copies exchange.policy=gossip exchange.graph=exponential exchange.turns=true exchange.codec=qsgd
pushed exchange.policy=gossip exchange.graph=arrows exchange.edges=0-1,1-2,2-3,3-0,0-2 exchange.push=true exchange.codec=3lc
hosts exchange.policy=allreduce exchange.group=2 exchange.outer.policy=average exchange.outer.every=3
tree exchange.policy=elastic exchange.every=1 exchange.group=2 exchange.outer.policy=elastic exchange.outer.every=2
END

# Every policy that there is has a line here, or is for workers at their own pace.
for name in $("$TUTTI" list policies | grep -o '^[a-z0-9]*'); do
    grep -q "policy=$name\b" "$folder/table" || grep -rq "\b$name\b" tests/e2e/async ||
        die "nobody stops a run under $name"
done

while read -r name settings; do
    # shellcheck disable=SC2086 # several settings
    set -- exact=true exchange.replicas=4 $settings
    train "$name-4" 4 "$@" || die "$name: $(cat "$folder/out")"
    train "$name-42" 4 "$@" train.stop=3 || die "$name: $(cat "$folder/out")"
    train "$name-42" 2 "$@" || die "$name: $(cat "$folder/out")"
    [ "$(sums "$name-4")" = "$(sums "$name-42")" ] ||
        die "$name: 4 ranks, then 2, end in other bits"
done <"$folder/table"

# What replicas have is kept by replica, beside the model.
"$TUTTI" inspect "$folder/average-4/checkpoints/step-00000008/optim.safetensors" >"$folder/out"
grep -q 'h.0.attn.c_attn.weight.replica *F32 *.4, 64, 192' "$folder/out" ||
    die "no weight by replica: $(cat "$folder/out")"
grep -q '"consensus"' "$folder/average-4/metrics.jsonl" || die "no consensus in the metrics"

# Codes of weights are counted as often as they are sent: four times to all, eight times to one
# neighbour, as codes that are added, packets, and packets of a length of their own.
for name in residual coded factors copies told; do
    case $name in
    residual) bytes=1699840 ;; # 4 x 424960
    coded) bytes=849920 ;;
    factors) bytes=6684672 ;; # 8 x 2 x 417792: matrices, to two neighbours
    copies) bytes=3399680 ;;
    told) bytes=1699840 ;; # 8 x half of the weights
    esac
    grep -q "\"raw_bytes\": *$bytes\b" "$folder/$name-4/ranks.json" ||
        die "$name: not $bytes before coding: $(cat "$folder/$name-4/ranks.json")"
    grep -q '"coded_bytes": *[1-9]' "$folder/$name-4/ranks.json" || die "$name: no codes"
done
grep -q coded_bytes "$folder/gossip-4/ranks.json" && die "codes of who sends numbers"
grep -q '"codec/raw_bytes":' "$folder/copies-4/metrics.jsonl" || die "no codes in the metrics"

# Another policy is another run; a fork with other replicas starts from the model.
train average-4 4 exact=true exchange.replicas=4 exchange.policy=average exchange.every=4 \
    train.steps=12 && die "went on with another number of steps between averages"
grep -q 'exchange.every' "$folder/out" || die "not said: $(cat "$folder/out")"
train average-4 2 --fork exchange.policy=average exchange.replicas=2 train.steps=10 ||
    die "fork: $(cat "$folder/out")"
grep -q 'the replicas start from the model' "$folder/out" || die "fork: $(cat "$folder/out")"
