# The history of runs: what training leaves in it and what `tutti runs` makes of it.
# deadline: 120
set -eu
folder=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 $pid 2>/dev/null || true; rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder/state"

die() {
    echo "$1"
    cat "$folder/out" "$folder/err" 2>/dev/null || true
    exit 1
}

# fails WORDS COMMAND... - exit status 2 and one sentence that has these words.
fails() {
    words=$1
    shift
    status=0
    "$TUTTI" "$@" >"$folder/out" 2>"$folder/err" || status=$?
    [ $status -eq 2 ] || die "tutti $*: exit status $status"
    grep -q "$words" "$folder/err" || die "tutti $*: does not say: $words"
    [ "$(wc -l <"$folder/err")" -eq 1 ] || die "tutti $*: more than a sentence"
}

# Looking makes no file.
"$TUTTI" runs >"$folder/out"
grep -q 'no runs yet' "$folder/out" || die 'tutti runs without a history'
[ ! -e "$folder/state" ] || die 'tutti runs made a history'

for lr in 1 2; do
    "$TUTTI" train examples/gpt-tiny.yaml run="$folder/run$lr" \
        optim.lr=${lr}e-3 >"$folder/out" 2>&1 || die "training $lr"
done
"$TUTTI" train examples/gpt-tiny.yaml run="$folder/run1" optim.lr=1e-3 \
    train.steps=25 >"$folder/out" 2>&1 || die 'training goes on'
"$TUTTI" runs >"$folder/out"
[ "$(wc -l <"$folder/out")" -eq 3 ] || die 'tutti runs: a row per run'
grep -q "^ *2 .* 20 .* done  *$folder/run2\$" "$folder/out" || die 'run 2'
grep -q "^ *1 .* 25 .* done  *$folder/run1\$" "$folder/out" || die 'run 1'

"$TUTTI" runs show "$folder/run1" >"$folder/out"
grep -q '^  steps  *25$' "$folder/out" || die 'tutti runs show'
grep -q '^optim.lr: 0.001$' "$folder/out" || die 'tutti runs show: settings'
"$TUTTI" runs compare 1 2 >"$folder/out"
grep -q '^optim.lr  *0.001  *0.002$' "$folder/out" || die 'compare: settings'
grep -q '^train/loss  *[0-9.]*  *[0-9.]*$' "$folder/out" || die 'compare: loss'
grep -q '^model' "$folder/out" && die 'compare: what is the same'
grep -q '^setting  *run1  *run2$' "$folder/out" || die 'compare: names'
grep -q '^train/loss over steps.*: a run1, b run2; ' "$folder/out" ||
    die 'compare: one scale'
[ "$(grep -c '^ *[0-9.]* |.*[ab*]' "$folder/out")" -ge 4 ] || die 'compare: curves'
"$TUTTI" runs compare 1 2 --html out="$folder/both.html" >"$folder/out"
[ "$(cat "$folder/out")" = "$folder/both.html" ] || die 'compare --html'
for text in '<h1>run1, run2</h1>' 'class="line r0"' 'class="line r1"' \
    'class="key r1">run2' 'scope="row">optim.lr</th><td>0.001</td><td>0.002<'; do
    grep -qF "$text" "$folder/both.html" || die "compare --html: no $text"
done
if grep -qE 'http|<link|src=|@import|url\(' "$folder/both.html"; then
    die 'the page asks for something from elsewhere'
fi
fails 'add --html' runs compare 1 2 out="$folder/both.html"
fails 'compare A B --html' runs --html
"$TUTTI" runs best loss >"$folder/out"
sed -n 2p "$folder/out" | grep -q 'done' || die 'tutti runs best loss'
"$TUTTI" runs best accuracy >"$folder/out"
grep -q 'no run has that' "$folder/out" || die 'tutti runs best accuracy'

# By the last part of the folder too, where one run has it.
"$TUTTI" runs compare run1 run2 >"$folder/out" || die 'compare by names'
grep -q '^setting  *run1  *run2$' "$folder/out" || die 'compare by names: which'
"$TUTTI" runs show run2 >"$folder/out" || die 'show by name'
grep -q '^  run  *2$' "$folder/out" || die 'show by name: which'
"$TUTTI" train examples/gpt-tiny.yaml run="$folder/other/run2" train.steps=2 \
    >"$folder/out" 2>&1 || die 'another of that name'
fails '2 runs are called "run2": give an id (3, 2)' runs compare run1 run2
rm -r "$folder/other"
"$TUTTI" runs show "$folder/run2" >"$folder/out" || die 'the folder decides'

# Without its folder a run is still a row; without its row, still a folder.
mv "$folder/run2" "$folder/moved"
"$TUTTI" runs show 2 >"$folder/out" || die 'a run without its folder'
"$TUTTI" runs compare 1 "$folder/moved" >"$folder/out" || die 'a folder alone'
grep -q '^optim.lr  *0.001  *0.002$' "$folder/out" || die 'a folder alone: lr'

# A fresh start keeps the old run in the list, under its new name.
"$TUTTI" train examples/gpt-tiny.yaml run="$folder/run1" optim.lr=3e-3 --fresh \
    >"$folder/out" 2>&1 || die 'a fresh start'
"$TUTTI" runs >"$folder/out"
grep -q "^ *1 .* 25 .* done  *$folder/run1.1\$" "$folder/out" || die 'the old run'
grep -q "^ *[0-9]* .* 20 .* done  *$folder/run1\$" "$folder/out" || die 'the new run'

# What is no run is not moved away.
mkdir "$folder/photos"
echo x >"$folder/photos/1.jpg"
fails 'not the folder of a run' train examples/gpt-tiny.yaml \
    run="$folder/photos" --fresh
[ -f "$folder/photos/1.jpg" ] || die 'a folder of photos was moved away'

# Why a run failed is said.
"$TUTTI" train examples/gpt-tiny.yaml run="$folder/bad" optim=sgd \
    optim.lr=1000 optim.clip=0 >"$folder/out" 2>&1 && die 'nothing is wrong'
"$TUTTI" runs >"$folder/out"
grep -qE '^[0-9]+ failed: the (loss|gradient) is not finite' "$folder/out" ||
    die 'why it failed'
"$TUTTI" runs show "$folder/bad" >"$folder/out"
grep -q '^  why  *the ' "$folder/out" || die 'runs show: why it failed'

fails 'there is no run "77"' runs show 77
fails 'there is no run' runs show "$folder"
fails 'which run' runs show
fails 'two runs or more' runs compare 1
fails 'not "delete"' runs delete
fails 'ranked by' runs best lr
fails 'one word too many' runs list 1

# A run that goes on: its step and losses as they are now, in every command, by its folder
# alone too; and one that was killed is said to be so.
"$TUTTI" train examples/gpt-tiny.yaml run="$folder/live" train.steps=10000000 \
    threads=1 eval.every=0 log.every=1 >"$folder/live.out" 2>&1 &
pid=$!
tries=0
until [ "$(grep -c 'train/loss' "$folder/live/metrics.jsonl" 2>/dev/null || true)" -ge 30 ] 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || die 'training does not go on'
    sleep 0.1
done
live() {
    "$TUTTI" runs >"$folder/out"
    row=$(grep "  *$folder/live\$" "$folder/out")
    echo "$row" | grep -qE " [0-9]{2,}/10000000 +[0-9.]+ .* $1 " || die "the list: $row"
    "$TUTTI" runs show "$folder/live" >"$folder/out"
    grep -qE '^  steps  *[0-9,]{2,} of 10,000,000$' "$folder/out" || die "show: $1, steps"
    grep -qE "^  status  *$1\$" "$folder/out" || die "show: $1"
    grep -q "^$2  *live\$" "$folder/out" || die "show: $1, not $2"
    "$TUTTI" runs compare "$folder/run1" "$folder/live" >"$folder/out"
    grep -q "^$2  *run1  *live\$" "$folder/out" || die "compare: $1, not $2"
}
live running 'so far'
mv "$folder/state" "$folder/state.kept"
"$TUTTI" runs show "$folder/live" >"$folder/out"
grep -qE '^  status  *running$' "$folder/out" || die 'a folder alone that goes on'
grep -qE '^  steps  *[0-9,]{2,} of 10,000,000$' "$folder/out" || die 'a folder alone: steps'
mv "$folder/state.kept" "$folder/state"
kill -9 $pid
wait $pid || true
pid=
live killed 'when last heard of'

# A history that is something else is an error here and a warning in training.
echo 'this is not a history of runs, it is only text' >"$folder/state/tutti/runs.db"
fails 'damaged or something else' runs
"$TUTTI" train examples/gpt-tiny.yaml run="$folder/run3" >"$folder/out" 2>&1 ||
    die 'a damaged history stops training'
grep -q 'damaged or something else' "$folder/out" || die 'no warning'

if ! command -v python3 >/dev/null; then
    exit 0
fi
rm "$folder/state/tutti/runs.db"
"$TUTTI" runs --json | python3 -c 'import json, sys; assert json.load(sys.stdin) == []'
"$TUTTI" train examples/gpt-tiny.yaml run="$folder/run3" train.steps=22 \
    >"$folder/out" 2>&1 || die 'training 3'
"$TUTTI" runs --json | python3 -c '
import json, sys
(run,) = json.load(sys.stdin)
assert run["id"] == 1 and run["step"] == 22 and run["status"] == "done", run
assert run["loss"] > 0 and run["parameters"] > 0 and run["accuracy"] is None, run'
"$TUTTI" runs show 1 --json | python3 -c '
import json, sys
run = json.load(sys.stdin)
assert run["metrics"]["train/loss"]["step"][-1] >= 20, run
assert "model: gpt" in run["config"]'
"$TUTTI" runs compare 1 "$folder/moved" --json | python3 -c '
import json, sys
both = json.load(sys.stdin)
assert both["settings"]["optim.lr"][1] == "0.002", both
assert len(both["runs"]) == 2 and both["runs"][0]["metrics"]["train/loss"] > 0'

# One that stopped where train.stop said is not done.
"$TUTTI" train examples/gpt-tiny.yaml run="$folder/asked" train.stop=3 >"$folder/out" 2>&1 ||
    die 'training to train.stop'
"$TUTTI" runs >"$folder/out"
grep -q " 3/20 .* stopped  *$folder/asked\$" "$folder/out" || die 'a run that was asked to stop'
# A run has a folder of its own: not one that holds other runs.
fails 'holds other runs' train examples/gpt-tiny.yaml run="$folder"
[ ! -e "$folder/checkpoints" ] || die 'a run was begun among others'
cp -r "$folder/asked" "$folder/inner"
mv "$folder/inner" "$folder/asked/inner"
fails 'holds other runs' train examples/gpt-tiny.yaml run="$folder/asked" --fresh
[ -d "$folder/asked/inner" ] || die 'runs were moved away with another'
