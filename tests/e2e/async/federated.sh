# Federations: one hash on 1, 2 and 4 ranks for every split and algorithm; a run that is
# stopped and goes on elsewhere ends in the same bits; all clients with one step are the
# all-reduce; the loss falls; label skew slows FedAvg down; refusals.
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

# What is left of a run: states, and metrics but for times.
sums() {
    cat "$folder/$1"/checkpoints/step-00000004/*.safetensors "$folder/$1/checkpoints/step-00000004/exchange.bin" |
        cksum
    sed -n 's/.*"\(train\|val\)\/loss":\([^,}]*\).*/\1 \2/p' "$folder/$1/metrics.jsonl"
}

# same SETTINGS... - on 1 and 4 ranks; and stopped after 2 rounds on 2 ranks.
same() {
    rm -rf "$folder/one" "$folder/many" "$folder/parts"
    train one 1 "$@" || die "$*: $(cat "$folder/out")"
    train many 4 "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums many)" ] || die "$*: 4 ranks end in other bits than 1"
    train parts 2 "$@" train.stop=2 || die "$*: $(cat "$folder/out")"
    train parts 1 "$@" || die "$*: $(cat "$folder/out")"
    [ "$(sums one)" = "$(sums parts)" ] || die "$*: stopped on 2 ranks, on 1 it ends in other bits"
}

same exchange.split=dirichlet exchange.alpha=0.3
same exchange.split=label exchange.proximal=0.1 exchange.weights=equal
same exchange.control=scaffold exchange.split=dirichlet optim=adam optim.lr=0.01
same exchange.masks=true exchange.drop=0.2 exchange.split=dirichlet exchange.control=scaffold
same exchange.clip=0.5 exchange.noise=0.7 exchange.weights=equal exchange.masks=true
grep -q 'privacy spent: epsilon' "$folder/out" || die "epsilon is not told at the end: $(cat "$folder/out")"
grep -q '"privacy/epsilon":' "$folder/one/metrics.jsonl" || die "epsilon is not among the metrics"
same exchange.split=contiguous exchange.over=1.5 exchange.deadline=9 exchange.drop=0.1 optim=momentum

# value RUN NAME - the last of a metric.
value() {
    sed -n "s|.*\"$2\":\([^,}]*\).*|\1|p" "$folder/$1/metrics.jsonl" | tail -n 1
}

# All clients, one step each, of as many samples: the all-reduce, in 64 bits. 20 clients divide the
# data, so all have the same weight.
equal() {
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a != "" && d * d <= 1e-18 * a * a) }'
}
train fed 2 precision=fp64 exchange.replicas=20 exchange.fraction=1 exchange.local_epochs=0 optim.clip=0 ||
    die "fp64: $(cat "$folder/out")"
"$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=160 optim=sgd optim.lr=0.1 \
    optim.clip=0 precision=fp64 run="$folder/sum" train.steps=4 log.every=2 threads=1 >"$folder/out" 2>&1 ||
    die "fp64: $(cat "$folder/out")"
equal "$(value fed val/loss)" "$(value sum val/loss)" || die "a federation of all is not the all-reduce"
equal "$(value fed train/loss)" "$(value sum train/loss)" || die "a federation of all has other samples"

# With one step the variates of all clients cancel in the mean, whatever they are.
train control 2 precision=fp64 exchange.replicas=20 exchange.fraction=1 exchange.local_epochs=0 optim.clip=0 \
    exchange.control=scaffold || die "fp64: $(cat "$folder/out")"
equal "$(value control val/loss)" "$(value fed val/loss)" || die "control variates do not cancel"

# Clients of unequal sizes with all of their data at once: still the whole batch.
train fed_all 1 precision=fp64 exchange.split=dirichlet exchange.fraction=1 batch=2000 optim.clip=0 ||
    die "fp64: $(cat "$folder/out")"
"$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=2000 optim=sgd optim.lr=0.1 \
    optim.clip=0 precision=fp64 run="$folder/sum_all" train.steps=4 log.every=2 threads=1 >"$folder/out" 2>&1 ||
    die "fp64: $(cat "$folder/out")"
equal "$(value fed_all val/loss)" "$(value sum_all val/loss)" || die "weights by size are not those of samples"

# Masks change nothing but the last digits, also when clients go away; without noise a clip that is
# never reached changes nothing.
train plain 1 precision=fp64 exchange.drop=0.3 exchange.clip=1e6 || die "plain: $(cat "$folder/out")"
train masked 2 precision=fp64 exchange.drop=0.3 exchange.masks=true || die "masks: $(cat "$folder/out")"
awk -v a="$(value plain val/loss)" -v b="$(value masked val/loss)" \
    'BEGIN { d = a - b; exit !(a != "" && d * d < 1e-14) }' || die "masks change the sum"
train lost 2 exchange.drop=0.95 exchange.masks=true || die "lost: $(cat "$folder/out")"
grep -q 'without an update' "$folder/out" || die "lost rounds are not told: $(cat "$folder/out")"

# The loss falls, and slower with skewed labels, on images; on tokens too.
below() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a < b) }'
}
for split in iid dirichlet; do
    "$TUTTI" train examples/lenet-tiny.yaml exchange.policy=federated exchange.replicas=20 exchange.fraction=0.25 \
        exchange.local_epochs=1 exchange.local_lr=0.2 optim=sgd optim.lr=1 exchange.split=$split train.steps=12 \
        threads=1 run="$folder/$split" >"$folder/out" 2>&1 || die "lenet: $(cat "$folder/out")"
done
below "$(value iid val/loss)" 1.5 || die "LeNet on i.i.d. clients does not learn: $(value iid val/loss)"
below "$(value iid val/loss)" "$(value dirichlet val/loss)" || die "label skew does not slow FedAvg down"
"$TUTTI" train examples/gpt-tiny.yaml exchange.policy=federated exchange.replicas=40 exchange.fraction=0.1 \
    exchange.split=contiguous exchange.local_steps=4 exchange.local_lr=0.3 optim=adam optim.lr=0.01 threads=1 -n 2 \
    run="$folder/gpt" >"$folder/out" 2>&1 || die "gpt: $(cat "$folder/out")"
below "$(value gpt val/loss)" 3 || die "a small GPT does not learn: $(value gpt val/loss)"

# What has no meaning is refused in a sentence.
refused() {
    pattern=$1
    shift
    train no 2 "$@" && die "$*: not refused"
    grep -q "$pattern" "$folder/out" || die "$*: $(cat "$folder/out")"
}
refused 'exchange.schedule=seeded would do' exchange.schedule=wall
refused 'exchange.local_epochs=0 would do' exchange.local_steps=3
refused 'clients would not move' exchange.local_lr=0
refused 'asks nobody.*would do' exchange.fraction=0
refused 'exchange.clip=1 would do' exchange.noise=1
refused 'exchange.weights=equal would do' exchange.noise=1 exchange.clip=1
refused 'exchange.over=1 would do' exchange.noise=1 exchange.clip=1 exchange.weights=equal exchange.over=2
refused 'exchange.control=none would do' exchange.noise=1 exchange.clip=1 exchange.weights=equal exchange.control=scaffold
refused 'does not say where documents end' exchange.split=document
refused 'too few for 5000 clients' exchange.replicas=5000
refused 'zero=0 would do' zero=1
"$TUTTI" train examples/gpt-tiny.yaml exchange.policy=federated exchange.split=dirichlet run="$folder/no" \
    >"$folder/out" 2>&1 && die "dirichlet of tokens: not refused"
grep -q 'exchange.split=contiguous would do' "$folder/out" || die "tokens: $(cat "$folder/out")"

# Images by user: folders in the folders of classes.
for class in dots lines; do
    for user in ann bob cyd; do
        mkdir -p "$folder/users/$class/$user"
        for i in 1 2 3 4 5 6; do
            printf 'P2\n4 4\n255\n%s\n' "$(seq $((i + ${#class})) 15 $((225 + i + ${#class})) | tr '\n' ' ')" \
                >"$folder/users/$class/$user/$i.pgm"
        done
    done
done
users() {
    "$TUTTI" train model=mlp model.layers=1 model.width=8 data=folder data.path="$folder/users" image=4 batch=2 \
        exchange.policy=federated exchange.split=user run="$folder/$1" train.steps=3 threads=1 \
        "exchange.replicas=$2" >"$folder/out" 2>&1
}
users by_user 3 || die "by user: $(cat "$folder/out")"
users too_many 4 && die "3 users, 4 clients: not refused"
grep -q 'exchange.replicas=3 would do' "$folder/out" || die "by user: $(cat "$folder/out")"

# Rows of a table by a column, with names or without; members of shards by their folder.
printf 'who,x,y,label\n' >"$folder/named.csv"
for i in 1 2 3 4 5 6; do
    for user in ann bob cyd; do
        echo "$user,0.$i,0.${#user}$i,$((i % 2))"
    done
done | tee "$folder/plain.csv" >>"$folder/named.csv"
table() {
    "$TUTTI" train model=mlp model.layers=1 model.width=8 data=csv data.path="$folder/$2" batch=2 \
        exchange.policy=federated exchange.split=user run="$folder/$1" train.steps=3 threads=1 data.holdout=0 \
        exchange.replicas=3 "$3" >"$folder/out" 2>&1
}
table named named.csv data.user=who || die "a column by its name: $(cat "$folder/out")"
table numbered plain.csv data.user=0 || die "a column by its number: $(cat "$folder/out")"
[ "$(cksum <"$folder/named/checkpoints/step-00000003/model.safetensors")" = "$(cksum <"$folder/numbered/checkpoints/step-00000003/model.safetensors")" ] ||
    die "a column by its name and by its number are not the same users"
table no_user plain.csv data.label=3 && die "texts among the features: not refused"
table no_column plain.csv data.user=7 && die "column 7: not refused"
grep -q 'there are 4 columns' "$folder/out" || die "column 7: $(cat "$folder/out")"
table both named.csv data.user=label && die "the label's column is the user's: not refused"
for user in ann bob cyd; do
    mkdir -p "$folder/shard/$user"
    for i in 1 2 3 4; do
        cp "$folder/users/dots/$user/$i.pgm" "$folder/shard/$user/$i.pgm"
        echo $((i % 2)) >"$folder/shard/$user/$i.cls"
    done
done
(cd "$folder/shard" && tar cf ../images.tar ann/* bob/* cyd/* && cd ann && tar cf ../../flat.tar ./*)
shards() {
    "$TUTTI" train model=mlp model.layers=1 model.width=8 data=webdataset data.path="$folder/$1.tar" image=4 batch=2 \
        exchange.policy=federated exchange.split=user run="$folder/$1" train.steps=3 threads=1 data.holdout=0 \
        exchange.replicas="$2" >"$folder/out" 2>&1
}
shards images 3 || die "shards by user: $(cat "$folder/out")"
shards flat 1 && die "members without a folder: not refused"
grep -q "the sample is nobody's" "$folder/out" || die "members without a folder: $(cat "$folder/out")"
