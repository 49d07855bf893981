# No room on the disk: training goes on, with warnings that are repeated now and then and
# a word in every line of progress, as long as it can save later, else it ends with a clear error; checkpoints that are there stay whole.
# deadline: 240
set -u
folder=$(mktemp -d)
trap 'umount "$folder/disk" 2>/dev/null; rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME=$folder/state
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

cat >gpt.yaml <<'END'
model: gpt
model.layers: 1
model.heads: 2
model.width: 32
model.context: 8
data: synthetic
data.size: 1000
data.classes: 16
batch: 4
optim.lr: 0.01
train.steps: 12
log.every: 2
checkpoint.every: 2
END

"$tutti" train gpt.yaml run=whole >out 2>err || fail "with room: $(cat err)"
"$tutti" train gpt.yaml run=full train.stop=4 >out 2>err || fail "first part"
before=$(cd full/checkpoints && find step-00000004 -type f | sort | xargs cksum)

# Files may not grow beyond a limit that checkpoints exceed and metrics do not.
(
    ulimit -f 30
    "$tutti" train gpt.yaml run=full >out 2>err
)
status=$?
[ $status -eq 2 ] || fail "exit status $status, not 2: $(cat out err)"
grep -q 'could not be saved; the newest that is good is that of step 4: ' err || fail "no clear error: $(cat err)"
n=$(grep -c 'no checkpoint of step.*the newest that is good is that of step 4:' out)
[ "$n" -ge 2 ] && [ "$n" -le 3 ] || fail "$n warnings, not 2 or 3: $(cat out)"
grep -q '^step 12/12 .*  NO CHECKPOINT SAVED$' out ||
    fail "the line of progress says nothing: $(cat out)"
grep -q '12/12' out || fail "training did not go on"
after=$(cd full/checkpoints && find step-00000004 -type f | sort | xargs cksum)
[ "$before" = "$after" ] || fail "the good checkpoint was touched"

# Without an older one it says so, at the failures 1, 2, 4, 8, 16, each of its own step.
(
    ulimit -f 30
    "$tutti" train gpt.yaml run=none train.steps=40 >out 2>err
)
status=$?
[ $status -eq 2 ] || fail "without an older one: exit status $status"
grep -q 'step 40 could not be saved; there is no older one' err || fail "$(cat err)"
for step in 2 4 8 16 32; do
    grep -q "no checkpoint of step $step, .*there is no older one.*checkpoint of step $step:" out ||
        fail "no warning of step $step: $(cat out)"
done
n=$(grep -c 'no checkpoint of step' out)
[ "$n" -eq 5 ] || fail "$n warnings, not 5: $(cat out)"

# With room again it goes on from there, to the same bits.
"$tutti" train gpt.yaml run=full >out 2>err || fail "with room again: $(cat err)"
for file in model optim; do
    cmp {whole,full}/checkpoints/step-00000012/$file.safetensors ||
        fail "$file differs"
done
[ -z "$(find full -name '*tmp*')" ] || fail "temporary files are left"

# Files that belong together are all there, or none is: the last to be written, a
# tokenizer of 16 kB, finds no room.
seq 1 3000 >numbers.txt
head -n 400 numbers.txt >some.txt
"$tutti" data train-bpe numbers.txt vocab=600 out=bpe >out 2>err || fail "$(cat err)"
# nothing_left WHAT FOLDER - a command that wrote there ended with one sentence.
nothing_left() {
    [ $status -eq 2 ] || fail "$1: exit status $status: $(cat out err)"
    [ "$(wc -l <err)" -eq 1 ] || fail "$1: not one sentence: $(cat err)"
    [ -z "$(find "$2" -type f)" ] || fail "$1 leaves $(find "$2" -type f)"
}
mkdir half
(
    ulimit -f 10
    "$tutti" data train-bpe numbers.txt vocab=600 out=half >out 2>err
)
status=$?
nothing_left train-bpe half
for format in llmc nanogpt megatron npy; do
    (
        ulimit -f 10
        "$tutti" data tokenize some.txt tokenizer=bpe out=half/ format=$format >out 2>err
    )
    status=$?
    nothing_left "tokenize format=$format" half
done
for format in folder llmc; do
    (
        ulimit -f 30
        "$tutti" export whole out=half/export format=$format >out 2>err
    )
    status=$?
    nothing_left "export format=$format" half
done

# A disk that really is full, where one may be had.
mkdir disk
mount -t tmpfs -o size=1m tmpfs disk 2>/dev/null || exit 0
"$tutti" train gpt.yaml run=disk/run train.stop=4 >out 2>err ||
    fail "on a small disk: $(cat out err)"
dd if=/dev/zero of=disk/filler bs=1k count=1024 2>/dev/null
"$tutti" train gpt.yaml run=disk/run >out 2>err
status=$?
[ $status -eq 2 ] || fail "on a full disk: exit status $status: $(cat out err)"
[ "$(wc -l <err)" -le 2 ] || fail "not one sentence: $(cat err)"
rm disk/filler
"$tutti" train gpt.yaml run=disk/run >out 2>err ||
    fail "with room again: $(cat err)"
cmp {whole,disk/run}/checkpoints/step-00000012/model.safetensors ||
    fail "the model differs after a full disk"
exit 0
