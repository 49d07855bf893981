# `tutti train my.txt`: a file or folder of data is enough; and warnings about settings
# that are allowed and that nobody means.
# deadline: 240
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
cd "$folder"

die() {
    echo "$1"
    exit 1
}

# says TEXT - standard error has it.
says() {
    grep -q -- "$1" err || die "does not say \"$1\": $(cat err)"
}

# A text: a small GPT, and it says what it chose.
for n in $(seq 400); do echo "the cat sat on mat number $n"; done >my.txt
"$tutti" train my.txt train.steps=3 model.layers=1 model.width=16 model.heads=2 \
    >out 2>err || die "train my.txt: $(cat err)"
says '^note: my.txt is text: data=text model=gpt, 3 steps; '
says 'train.steps=N'
grep -q '^  run  *runs/my$' out || die "another folder: $(cat out)"
"$tutti" sample runs/my tokens=5 >/dev/null || die 'no sample of it'
# What is given is not chosen.
grep -q '^model.layers: 1$' runs/my/config.yaml || die 'model.layers'
grep -q '^optim.warmup: 0$' runs/my/config.yaml || die 'a warm-up for 3 steps'
# The whole recipe, without training it.
"$tutti" train my.txt run=new --dry-run >out 2>err
grep -q '^train.steps: 2000$' out && grep -q '^model.layers: 4$' out ||
    die "another recipe: $(cat out)"
# A short text gets a short context; another model its own options.
head -c 300 my.txt >short.txt
"$tutti" train short.txt --dry-run 2>err | grep -q '^model.context: 8$' ||
    die 'the context of a short text'
"$tutti" train my.txt model=lstm run=new --dry-run 2>err | grep -q '^model: lstm$' ||
    die "another model: $(cat err)"
"$tutti" plan my.txt 2>err | grep -q '^fits: ' || die 'plan my.txt'

# A folder of texts, a table.
mkdir texts
cp my.txt texts/a.txt
"$tutti" train texts --dry-run 2>err | grep -q '^data: text$' || die 'texts'
(cd texts && "$tutti" train . --dry-run) 2>err | grep -q '^run: runs/texts$' ||
    die 'the run of the folder "." is called otherwise'
{
    echo 'a,b,label'
    for n in $(seq 60); do echo "$n,$((n % 7)),$((n % 2))"; done
} >table.csv
"$tutti" train table.csv train.epochs=1 >out 2>err || die "a table: $(cat err)"
says 'table.csv is a table of numbers: data=csv model=mlp'

# Warnings, and it trains.
small='my.txt model.layers=1 model.width=16 model.heads=2 train.steps=2'
warns() {
    text=$1
    shift
    # shellcheck disable=SC2086
    "$tutti" train $small --fresh "$@" >out 2>err || die "$*: $(cat err)"
    says "^warning: .*$text"
}
warns 'optim.warmup=9 is more than the 2 steps of the run' optim.warmup=9
warns 'evaluated at the end only' eval.every=5
warns 'no sample is written' sample.every=5
warns 'threads=512: there are' threads=512
warns 'train.patience counts evaluations' train.patience=2
warns 'optim.step_every=5 does nothing without optim.schedule=step' optim.step_every=5
warns 'zero=2 does nothing' zero=2
warns 'layout.heads=data does nothing: no ranks share the batch' layout.heads=data
warns 'layout.attn.heads=data does nothing: no ranks share' layout.attn.heads=data
warns 'layout.h.0.ff=data does nothing: no ranks share' layout.rules=h.0/ff:data
warns 'layout.attention=all_to_all does nothing: no ranks share a sequence' \
    layout.attention=all_to_all
warns 'layout.zigzag=false does nothing' layout.zigzag=false
warns 'layout.zigzag=false does nothing' layout.zigzag=false -n 2 batch=2
warns 'exchange.bucket=100 does nothing' exchange.bucket=100
warns 'exchange.order=priority does nothing' exchange.order=priority
warns 'exchange.codec=topk does nothing: there is one replica' exchange.codec=topk
warns 'exchange.replicas=2 does nothing without exchange.codec' exchange.replicas=2
warns 'collective=ring does nothing: there is one rank' collective=ring
warns 'mesh.order=tensor,data does nothing' mesh.order=tensor,data
warns 'comm.slow_rate=5e+06 does nothing' comm.slow_rate=5e6
# shellcheck disable=SC2086
"$tutti" train $small --fresh -n 2 layout.heads=data mesh.tensor=2 >out 2>err &&
    die "a cut along data without ranks there: $(cat out)"
says 'layout.heads=data, but the mesh has no ranks along data'
"$tutti" plan my.txt layout.heads=data >out 2>err || die "plan: $(cat err)"
says '^warning: layout.heads=data does nothing'
warns 'no weight changes' optim.lr=0
warns 'very large for adamw' optim.lr=3
warns 'exact.blocks=8 does nothing without exact=true' exact.blocks=8
warns 'more than the .* samples of the data' batch=100000 seq=4 micro=10
# shellcheck disable=SC2086
"$tutti" train $small --fresh >out 2>err
! grep -q warning out err || die "warned without need: $(cat out err)"
# A run's own settings, all written out, are no wishes.
cp runs/my/config.yaml own.yaml
"$tutti" train own.yaml run=own >out 2>err || die "own.yaml: $(cat err)"
! grep -q warning out err || die "warned of defaults: $(cat out err)"
# Neither is what such a file says when something else is wished for now, nor what was
# chosen for the data.
"$tutti" train runs/my/config.yaml run=other optim.schedule=constant >out 2>err ||
    die "runs/my/config.yaml: $(cat err)"
! grep -q warning out err || die "warned of a run's settings: $(cat out err)"
# shellcheck disable=SC2086
"$tutti" train $small --fresh optim.schedule=constant >out 2>err || die 'constant'
! grep -q warning out err || die "warned of what was chosen: $(cat out err)"
warns 'optim.final=0.2 does nothing without' optim.schedule=constant optim.final=0.2
# shellcheck disable=SC2086
"$tutti" train $small --fresh >out 2>err || die 'back'

# Several files of settings make one run; what a later one overrides is said.
printf 'seed: 7\noptim.lr: 0.0005\n' >over.yaml
# shellcheck disable=SC2086
"$tutti" plan own.yaml over.yaml >out 2>err || die "two files: $(cat err)"
says '^note: over.yaml overrides seed of own.yaml:[0-9]*:1 and 1 more; one run is made of all files'
"$tutti" plan own.yaml own.yaml >out 2>err || die "the same file twice: $(cat err)"
! grep -q note err || die "nothing is overridden: $(cat err)"

# A run at its end says how to go on, and its schedule why not like this.
# shellcheck disable=SC2086
"$tutti" train $small >out 2>err || die 'again'
says 'was at its end already; train.steps=N with a larger N trains longer, with --fork'
# shellcheck disable=SC2086
"$tutti" train $small train.steps=4 >out 2>err && die 'trained on with other rates'
says 'to train longer, --fork goes on'
# shellcheck disable=SC2086
"$tutti" train $small train.steps=4 --fork >out 2>err || die "fork: $(cat err)"
grep -q 'done at step 4 of 4' out || die "fork: $(cat out)"

# The header names mesh, ZeRO and layout.
# shellcheck disable=SC2086
"$tutti" train $small --fresh -n 2 zero=1 >out 2>err || die "ranks: $(cat err)"
grep -q '^  mesh  *data:2, zero=1$' out || die "no mesh: $(cat out)"
grep -q '^  layout  *batch:data$' out || die "no layout: $(cat out)"
