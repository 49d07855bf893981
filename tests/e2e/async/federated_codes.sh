# Federations whose clients send codes: with every codec one hash on 1 rank, and stopped on 2 and gone on
# with on 4; a code that loses nothing is none; what codes leave out is kept for each client that was
# asked; what was decoded is clipped; bytes are those that were sent; the loss falls; refusals.
# deadline: 300
set -eu
. tests/script_begin

# train RUN RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    "$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=8 optim=sgd optim.lr=1 \
        run="$run" train.steps=4 checkpoint.every=2 threads=1 log.every=2 log.tensorboard=false \
        exchange.policy=federated exchange.replicas=30 exchange.fraction=0.3 exchange.local_epochs=1 -n "$ranks" \
        "$@" >"$folder/out" 2>&1
}

# numbers RUN NAME - of each client.
numbers() {
    sed "s/.*\"workers\": //; s/\"$2\": *\([0-9]*\)/\n\1\n/g" "$folder/$1/workers.json" | grep '^[0-9][0-9]*$'
}

# Bytes that clients have sent.
bytes() {
    numbers "$1" bytes_up | awk '{ n += $1 } END { print n }'
}

# What is left of a run: states, metrics but for times, bytes.
sums() {
    cat "$folder/$1"/checkpoints/step-00000004/*.safetensors "$folder/$1/checkpoints/step-00000004/exchange.bin" |
        cksum
    sed -n 's/.*"\(train\|val\)\/loss":\([^,}]*\).*/\1 \2/p' "$folder/$1/metrics.jsonl"
    bytes "$1"
}

# parts SETTINGS... - on 1 rank; and stopped after 2 rounds on 2 ranks, to go on on 4.
parts() {
    rm -rf "$folder/one" "$folder/parts"
    train one 1 "$@" || die "$*: $(cat "$folder/out")"
    train parts 2 "$@" train.stop=2 || die "$*: $(cat "$folder/out")"
    train parts 4 "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums parts)" ] || die "$*: stopped on 2 ranks, on 4 it ends in other bits than on 1"
}

# same SETTINGS... - on 1 and 4 ranks; and stopped after 2 rounds on 2 ranks, to go on on 1.
same() {
    rm -rf "$folder/one" "$folder/many" "$folder/parts"
    train one 1 "$@" || die "$*: $(cat "$folder/out")"
    train many 4 "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums many)" ] || die "$*: 4 ranks end in other bits than 1"
    train parts 2 "$@" train.stop=2 || die "$*: $(cat "$folder/out")"
    train parts 1 "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums parts)" ] || die "$*: stopped on 2 ranks, on 1 it ends in other bits"
}

train dense 1 || die "dense: $(cat "$folder/out")"
dense=$(bytes dense)
tried=0
for codec in $("$TUTTI" list codecs | sed -n 's,^\([a-z0-9]*\)   *[A-Z].*,\1,p'); do
    case $codec in
    none | codec | factors | dgc) continue ;;
    esac
    parts exchange.codec="$codec"
    tried=$((tried + 1))
    [ "$codec" = nonzero ] || [ "$(bytes one)" -lt "$dense" ] || die "$codec: $(bytes one) bytes, dense $dense"
done
[ $tried -ge 14 ] || die "only $tried codecs"

# Residuals where none are needed, and none where they are; variates, and clients that go away.
same exchange.codec=int8 exchange.feedback=true exchange.split=dirichlet
same exchange.codec=topk exchange.feedback=false exchange.drop=0.2 exchange.over=1.5
same exchange.codec=topk exchange.control=scaffold exchange.split=dirichlet optim=adam optim.lr=0.01
same exchange.codec=qsgd exchange.clip=0.5 exchange.noise=0.7 exchange.weights=equal

# equal A B - losses in 64 bits.
equal() {
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a != "" && d * d <= 1e-18 * a * a) }'
}
# value RUN NAME - the last of a metric.
value() {
    sed -n "s|.*\"$2\":\([^,}]*\).*|\1|p" "$folder/$1/metrics.jsonl" | tail -n 1
}

# A code that loses nothing is none, with residuals and without.
train wide 2 precision=fp64 || die "fp64: $(cat "$folder/out")"
for codec in none nonzero "topk exchange.codec.ratio=1" "randomk exchange.codec.ratio=1" \
    "powersgd exchange.codec.rank=64" "topk exchange.codec.ratio=1 exchange.feedback=false"; do
    rm -rf "$folder/whole"
    # shellcheck disable=SC2086 # words
    train whole 2 precision=fp64 exchange.codec=$codec || die "$codec: $(cat "$folder/out")"
    equal "$(value whole val/loss)" "$(value wide val/loss)" || die "$codec loses nothing, and has another loss"
done

# A checkpoint has a residual for each client that has answered, as large as what it sends without a code.
size() {
    wc -c <"$folder/$1/checkpoints/step-00000004/exchange.bin"
}
rm -rf "$folder/kept" "$folder/bare"
train kept 2 exchange.codec=topk || die "kept: $(cat "$folder/out")"
train bare 2 exchange.codec=topk exchange.feedback=false || die "bare: $(cat "$folder/out")"
sent=$(numbers dense gradients | awk '{ n += $1 } END { print n }')
answered=$(numbers kept gradients | awk '$1 > 0 { n++ } END { print n }')
more=$(($(size kept) - $(size bare)))
[ $more -eq $((answered * (dense / sent))) ] || die "$answered clients have answered, and keep $more bytes"

# Codes at random are other ones in each round, and of each client: in two rounds two clients that send a
# tenth each change more weights than twice a tenth. Some never change: what they read is 0.
train random 1 exchange.replicas=2 exchange.fraction=1 exchange.codec=randomk exchange.codec.ratio=0.1 ||
    die "random: $(cat "$folder/out")"
weights="$folder/random/checkpoints/step-00000002/model.safetensors"
changed=$(cmp -l "$weights" "$folder/random/checkpoints/step-00000004/model.safetensors" |
    awk '{ w[int(($1 - 1) / 4)] = 1 } END { for (i in w) n++; print n }')
[ "$changed" -gt 300 ] || die "random entries are the same in each round, or of each client: $changed changed"

# What was left out comes later: with a residual the loss falls further.
below() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a < b) }'
}
learn() {
    rm -rf "${folder:?}/$1"
    train "$@" train.steps=16 checkpoint.every=0 exchange.fraction=0.5 exchange.local_lr=0.2 ||
        die "$*: $(cat "$folder/out")"
}
learn kept 1 exchange.codec=topk exchange.codec.ratio=0.02
learn bare 1 exchange.codec=topk exchange.codec.ratio=0.02 exchange.feedback=false
below "$(value kept val/loss)" "$(value bare val/loss)" ||
    die "with residuals $(value kept val/loss), without $(value bare val/loss)"

# The loss falls: from 2.3 it comes to 0.19 without codes.
for codec in int8 "topk exchange.codec.ratio=0.1" sign qsgd powersgd; do
    # shellcheck disable=SC2086 # words
    learn coded 1 exchange.codec=$codec
    below "$(value coded val/loss)" 1 || die "$codec: the loss is $(value coded val/loss)"
done

# What was decoded is no longer than the clip. In each round one client answers, and the norm is that of
# the mean; a change is 0.2 long, what is decoded of a random code of it 0.4.
one_client() {
    rm -rf "${folder:?}/$1"
    train "$1" 1 exchange.fraction=0.03 log.every=1 precision=fp64 "$2" "$3"
}
one_client clipped exchange.codec=qsgd exchange.clip=0.1 || die "clip: $(cat "$folder/out")"
sed -n 's/.*"grad_norm":\([^,}]*\).*/\1/p' "$folder/clipped/metrics.jsonl" |
    awk '$1 > 0.1 * (1 + 1e-9) { long = 1 } END { exit long || NR != 4 }' ||
    die "what was decoded is longer than the clip"
# Nor longer than the limit: else it is refused, though the change was not.
one_client short exchange.codec=none exchange.limit=0.25 || die "limit: $(cat "$folder/out")"
one_client long exchange.codec=qsgd exchange.limit=0.25 && die "what was decoded is longer than the limit"
grep -q 'were refused: .*exchange.limit=0.25' "$folder/out" || die "limit: $(cat "$folder/out")"

# What has no meaning is refused in a sentence.
refused() {
    pattern=$1
    shift
    train no 2 "$@" && die "$*: not refused"
    grep -q "$pattern" "$folder/out" || die "$*: $(cat "$folder/out")"
}
refused 'exchange.codec=none would do' exchange.codec=int8 exchange.masks=true
refused 'exchange.codec=powersgd would do' exchange.codec=factors
refused 'exchange.codec=topk would do' exchange.codec=dgc
