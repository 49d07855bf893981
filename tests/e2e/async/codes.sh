# Workers that push codes of gradients: with every codec one hash on 1 and 4 ranks, also stopped on 2 and
# gone on with; what codes leave out is kept for each worker; bytes are those that were sent.
# deadline: 300
set -eu
. tests/script_begin

# train RUN RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    "$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=16 optim.lr=0.05 \
        optim=momentum run="$run" train.steps=4 checkpoint.every=2 threads=1 log.every=2 \
        exchange.policy=ps exchange.replicas=4 -n "$ranks" "$@" >"$folder/out" 2>&1
}

sums() {
    cat "$folder/$1"/checkpoints/step-00000004/*.safetensors "$folder/$1/checkpoints/step-00000004/exchange.bin" |
        cksum
    sed -n 's/.*"\(train\|val\)\/loss":\([^,}]*\).*/\1 \2/p' "$folder/$1/metrics.jsonl"
    bytes "$1"
}

# Bytes that workers have pushed.
bytes() {
    sed 's/"bytes_up": *\([0-9]*\)/\n\1\n/g' "$folder/$1/workers.json" | grep '^[0-9][0-9]*$' | awk '{ n += $1 } END { print n }'
}

# same CODEC SETTINGS...
same() {
    rm -rf "$folder/one" "$folder/many" "$folder/parts"
    set -- exchange.codec="$@"
    train one 1 "$@" || die "$*: $(cat "$folder/out")"
    train many 4 exchange.server=sharded "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums many)" ] || die "$*: 4 ranks end in other bits than 1"
    train parts 2 "$@" train.stop=2 || die "$*: $(cat "$folder/out")"
    train parts 1 "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums parts)" ] || die "$*: stopped on 2 ranks, on 1 it ends in other bits"
}

train dense 1 || die "dense: $(cat "$folder/out")"
dense=$(bytes dense)
for codec in $("$TUTTI" list codecs | sed -n 's,^\([a-z0-9]*\)   *[A-Z].*,\1,p'); do
    case $codec in
    none | codec) continue ;;
    esac
    same "$codec"
    [ "$codec" = nonzero ] || [ "$(bytes one)" -lt "$dense" ] || die "$codec: $(bytes one) bytes, dense $dense"
done
[ -n "${codec:-}" ] || die "no codecs"

# A code that loses nothing.
same nonzero
[ "$(cat "$folder/one/checkpoints/step-00000004/model.safetensors" | cksum)" = \
    "$(cat "$folder/dense/checkpoints/step-00000004/model.safetensors" | cksum)" ] || die "nonzero is not dense"

# Under clocks and rules that keep gradients; with local steps; residuals where none are needed.
same topk exchange.clock=quorum exchange.staleness=lr
same powersgd exchange.clock=ssp exchange.local_steps=2
same int8 exchange.feedback=true exchange.gather=median exchange.clock=bsp
same onebit exchange.clock=absp batch=64 accumulate=4 exchange.spread=0.5
same factors exchange.clock=absp batch=64 accumulate=4 exchange.spread=0.5 model.width=64

# By the wall clock, stopped where gradients wait; its record on one rank.
for codec in topk qsgd powersgd factors; do
    rm -rf "$folder/wall" "$folder/again"
    set -- exchange.codec=$codec exchange.server=sharded
    train wall 4 "$@" exchange.schedule=wall train.stop=2 || die "wall $codec: $(cat "$folder/out")"
    train wall 2 "$@" exchange.schedule=wall || die "wall $codec: $(cat "$folder/out")"
    train again 1 "$@" exchange.schedule="$folder/wall/schedule.txt" || die "again $codec: $(cat "$folder/out")"
    [ "$(cksum <"$folder/wall/checkpoints/step-00000004/model.safetensors")" = \
        "$(cksum <"$folder/again/checkpoints/step-00000004/model.safetensors")" ] ||
        die "$codec: the record ends in other bits"
done

train no 2 exchange.codec=factors exchange.local_steps=2 && die "factors: not refused"
grep -q 'exchange.local_steps=1 would do' "$folder/out" || die "factors: $(cat "$folder/out")"
