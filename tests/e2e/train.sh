# Training from a configuration: what is printed, written, refused.
# deadline: 240
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME=$folder/state
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

# refuses TEXT WORD... - exit status 2, and the text on stderr.
refuses() {
    text=$1
    shift
    "$tutti" train "$@" >out 2>err
    status=$?
    [ $status -eq 2 ] || fail "train $*: exit status $status, not 2"
    grep -qF -- "$text" err || fail "train $*: should say: $text; $(cat err)"
}

cat >small.yaml <<'END'
model: gpt
model.layers: 1
model.heads: 2
model.width: 16
model.context: 8
data: synthetic
data.size: 2000
data.classes: 16
batch: 4
threads: 1
optim.lr: 0.01
train.steps: 12
log.every: 4
eval:
  every: 6
END

# Typos and contradictions, with place and suggestion.
sed 's/log.every/log.evry/' small.yaml >typo.yaml
refuses 'typo.yaml:13:1: log.evry: unknown setting; did you mean "log.every"?' \
    typo.yaml
sed 's/  every: 6/  evry: 6/' small.yaml >typo.yaml
refuses 'typo.yaml:15:3: eval.evry: unknown setting; did you mean "eval.every"?' \
    typo.yaml
refuses 'did you mean "optim.lr"' small.yaml lr=3
refuses 'how long to train is not set' small.yaml train.steps=0
refuses 'contradicts the data' small.yaml model.vocab=8
refuses 'learns from images' model=mlp data=synthetic data.kind=tokens train.steps=1
refuses 'data is not set' model=gpt train.steps=1
refuses 'did you mean' small.yaml data=sinthetic
refuses 'has no checkpoint to fork from' small.yaml --fork
[ ! -e runs ] || fail "what was refused left a folder behind"

# Dry run: nothing is started, all settings are there, and they read back.
"$tutti" train small.yaml --dry-run >one.yaml || fail "dry run"
[ ! -e runs ] || fail "a dry run left a folder behind"
grep -q '^model.vocab: 16$' one.yaml || fail "the vocabulary did not follow"
grep -q '^# .*evaluation' one.yaml || fail "no memory of the evaluation"
grep -q '^optim.beta2: ' one.yaml || fail "no defaults"
"$tutti" train one.yaml --dry-run >two.yaml || fail "dry run of a dry run"
cmp -s one.yaml two.yaml || fail "the dry run does not read back: $(diff one.yaml two.yaml)"

# A run: metrics, checkpoints, report; --json alone on standard output.
"$tutti" train small.yaml --json >out 2>err || fail "training: $(cat err)"
[ "$(wc -l <out)" -eq 1 ] || fail "--json is not one line"
grep -q '"reason": "done"' out || fail "not done"
run=runs/small
for file in config.yaml metrics.jsonl report.html \
    checkpoints/step-00000012/model.safetensors; do
    [ -s $run/$file ] || fail "no $file"
done
[ "$(grep -c train/loss $run/metrics.jsonl)" -eq 4 ] || fail "not step 0 and 3 points"
[ "$(grep -c val/loss $run/metrics.jsonl)" -eq 2 ] || fail "not 2 evaluations"
grep -v '^#' one.yaml | cmp -s - $run/config.yaml || fail "other config.yaml"

# Done is done; more steps go on where the schedule allows it.
"$tutti" train small.yaml >out 2>err || fail "a finished run"
grep -q 'all steps were made' out err || fail "does not say that it is done"
"$tutti" train small.yaml train.steps=14 >out 2>err || fail "more steps"
[ -d $run/checkpoints/step-00000014 ] || fail "no more steps were made"
"$tutti" train small.yaml >out 2>err || fail "fewer steps than were made"
grep -q 'has made 14 steps already, more than train.steps=12' out err ||
    fail "does not say that there are more: $(cat out err)"
grep -q 'done at step 14 after' out || fail "not done: $(cat out err)"
[ -d $run/checkpoints/step-00000014 ] || fail "what was made is gone"
refuses 'train.steps' small.yaml train.steps=20 optim.schedule=cosine

# Evaluation of a checkpoint says what training said.
"$tutti" eval $run --json >out || fail "eval"
loss=$(sed 's/.*"loss": *\([0-9.]*\).*/\1/' out)
tail -n 1 $run/metrics.jsonl | grep -q "\"val/loss\":$loss" ||
    fail "eval gives $loss, training $(tail -n 1 $run/metrics.jsonl)"
"$tutti" eval $run/checkpoints/step-00000012 >out || fail "eval of a checkpoint"
grep -q 'step 12' out || fail "eval of another checkpoint"
"$tutti" eval nowhere >out 2>err
[ $? -eq 2 ] || fail "eval of nothing"

# Early stop: a rate of 0 never gets better.
"$tutti" train small.yaml run=early optim.lr=0 eval.every=1 train.patience=2 \
    --json >out 2>err || fail "early stop: $(cat err)"
grep -q '"reason": "early stop"' out || fail "no early stop"
grep -q '"step": 3,' out || fail "patience of 2 is not 3 evaluations"
"$tutti" train small.yaml run=early optim.lr=0 eval.every=1 train.patience=2 \
    --json 2>err | grep -q '"step": 3,' || fail "an early stop is not for good"

# Epochs, and batch triples.
"$tutti" train small.yaml run=epochs train.steps=0 train.epochs=0.5 --dry-run |
    grep -q '^# steps 32' || fail "half an epoch of 249 windows is 32 steps of 4"
"$tutti" train small.yaml run=epochs train.steps=9 train.epochs=0.5 --dry-run |
    grep -q '^# steps 9' || fail "steps that end before the epochs do count"
"$tutti" train small.yaml run=epochs train.steps=99 train.epochs=0.5 --dry-run |
    grep -q '^# steps 32' || fail "epochs that end before the steps do count"
"$tutti" train small.yaml micro=2 run=other --dry-run | grep -q '^accumulate: 2$' ||
    fail "batch and micro give accumulate"
refuses 'accumulate' small.yaml micro=2 accumulate=3
exit 0
