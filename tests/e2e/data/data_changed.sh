# A run goes on with the data it was trained on, and with no others: a file that was
# changed while it stood still is named and refused, and --fork is the way around.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
corpus=$(realpath tests/fuzz/corpus)
export XDG_STATE_HOME=$folder/state
cd "$folder"

fail() {
    echo "$1"
    cat out err
    exit 1
}

gpt='model=gpt model.layers=1 model.width=8 model.heads=1 seq=4 batch=4 threads=1
    train.steps=8'

# goes_on RUN SETTINGS... - to the end.
goes_on() {
    run=$1
    shift
    # shellcheck disable=SC2086
    "$tutti" train $gpt "$@" run="$run" >out 2>err || fail "train $*"
    [ -d "$run/checkpoints/step-00000008" ] || fail "$run is not at its end"
}

# refuses FILE RUN SETTINGS... - with its name.
refuses() {
    file=$1
    run=$2
    shift 2
    status=0
    # shellcheck disable=SC2086
    "$tutti" train $gpt "$@" run="$run" >out 2>err || status=$?
    [ $status -eq 2 ] || fail "train $*: status $status"
    grep -q "$file has changed since the last checkpoint" err ||
        fail "it should name $file"
    grep -q -- --fork err || fail 'it should say what to do'
    [ ! -e "$run/checkpoints/step-00000008" ] || fail 'it went on'
}

# A byte of a text, with the time it had.
printf 'to be or not to be that is the question, %.0s' 1 2 3 4 5 6 7 8 >a.txt
cp -p a.txt old.txt
goes_on whole data=text data.path=a.txt
"$tutti" train $gpt data=text data.path=a.txt run=text train.stop=4 >out 2>err
sed 's/question/questoin/' old.txt >a.txt
touch -r old.txt a.txt
refuses a.txt text data=text data.path=a.txt
cp -p old.txt a.txt
goes_on text data=text data.path=a.txt
cmp whole/checkpoints/step-00000008/model.safetensors \
    text/checkpoints/step-00000008/model.safetensors

# A text that became longer, with letters it did not have: the file is named, and what
# only follows from it is not called a setting.
# shellcheck disable=SC2086
"$tutti" train $gpt data=text data.path=a.txt run=longer train.stop=4 >out 2>err
echo 'WHETHER TIS NOBLER' >>a.txt
refuses a.txt longer data=text data.path=a.txt
grep -q 'from [0-9]* to [0-9]* bytes' err || fail 'it should say how long it was'
if grep -q 'other settings\|model.vocab' err; then fail 'it is no setting'; fi
[ "$(wc -l <err)" -eq 1 ] || fail 'one sentence'
status=0
# shellcheck disable=SC2086
"$tutti" train $gpt data=text data.path=a.txt optim.lr=1e-5 run=longer >out 2>err || status=$?
[ $status -eq 2 ] && grep -q '^  optim.lr .*1e-05' err || fail 'a setting differs too'
grep -q 'model.vocab\|training data' err && fail 'the vocabulary is no setting'
grep -q 'a.txt has changed since' err || fail 'both are said'
cp -p old.txt a.txt

# Any file of a folder; validation; a fork goes on with what there is.
mkdir d
cp a.txt d/a.txt
cp a.txt d/b.txt
set -- data=text data.path=d data.val=old.txt
"$tutti" train $gpt "$@" run=folder train.stop=4 >out 2>err
tr 'q' 't' <old.txt >d/b.txt
refuses d/b.txt folder "$@"
cp old.txt d/b.txt
tr 'q' 't' <a.txt >old.txt
refuses old.txt folder "$@"
"$tutti" train $gpt "$@" run=folder --fork >out 2>err || fail 'a fork is refused'

# An evaluation says that its data are no longer those of the run; with the old data
# back, with other data that are named, and from another folder, it says nothing.
# evaluates WHAT... - nothing on stderr.
evaluates() {
    "$tutti" eval "$@" >out 2>err || fail "eval $*"
    [ ! -s err ] || fail "eval $* says something"
}
# notes FILE WHAT...
notes() {
    file=$1
    shift
    "$tutti" eval "$@" >out 2>err || fail "eval $*"
    grep -q "^note: .*/$file has changed since this checkpoint" err ||
        fail "eval $* does not name $file"
    [ "$(wc -l <err)" -eq 1 ] || fail 'one note'
    grep -q '^loss' out || fail 'it evaluates all the same'
}
cp old.txt a.txt
"$tutti" train $gpt data=text data.path=a.txt run=e/single train.stop=2 >out 2>err
"$tutti" train $gpt data=text data.path=d data.val=old.txt run=e/own train.stop=2 >out 2>err
for where in . e / ; do
    (cd $where && evaluates "$folder/e/single" && evaluates "$folder/e/own")
done
sed 's/not/nut/' old.txt >a.txt
notes a.txt e/single
(cd e && notes a.txt single)
(cd e/single && notes a.txt .)
notes a.txt e/single -n 2
evaluates e/single data.path=a.txt
evaluates e/single data.val=old.txt
evaluates e/own
printf 'to be' >>old.txt
notes old.txt e/own

# Images in folders, by ranks.
mkdir -p images/a images/b
for i in 1 2 3 4; do
    cp "$corpus/png/gray8" images/a/$i.png
    cp "$corpus/png/rgb8" images/b/$i.png
done
gpt='model=mlp model.layers=1 model.width=4 image=4 data.resize=fit batch=4
    threads=1 train.steps=8 -n 2'
set -- data=folder data.path=images
"$tutti" train $gpt "$@" run=images-run train.stop=4 >out 2>err || fail images
cp images/b/1.png images/a/1.png
refuses images/a/1.png images-run "$@"
for i in 2 3 4; do # some of them are those of validation
    cp images/b/1.png images/a/$i.png
done
"$tutti" eval images-run -n 2 >out 2>err || fail 'eval of images'
grep -q "^note: .*/images/a/[1-4].png has changed since" err || fail 'eval of images says nothing'
