# trial.pace: a run under a pace computes the same bits, takes its modelled seconds, says
# that its times are made, and refuses a list that is not one speed per rank.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
here=$(pwd)
export XDG_STATE_HOME="$folder/state" XDG_CACHE_HOME="$folder/cache"
export OMP_NUM_THREADS=1
export LSAN_OPTIONS="suppressions=$here/tests/leaks.txt:print_suppressions=0"
export ASAN_OPTIONS=fast_unwind_on_malloc=0:verify_asan_link_order=0
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

cat >gpt.yaml <<'END'
model: gpt
model.layers: 4
model.heads: 2
model.width: 32
model.context: 16
model.vocab: 32
data: synthetic
batch: 8
accumulate: 4
threads: 1
optim.lr: 0.01
train.steps: 4
log.every: 1
mesh.pipe: 2
END

refuses() {
    "$tutti" train gpt.yaml run=no -n 2 trial.pace="$1" >out 2>err
    [ $? -eq 2 ] || fail "trial.pace=$1 was not refused"
    grep -q "$2" err || fail "trial.pace=$1: $(cat err)"
    [ ! -e no ] || fail "trial.pace=$1 left a folder"
}
refuses 1 'has the speed of 1 rank, and there are 2'
refuses 1,1,1 'has the speeds of 3 ranks, and there are 2'
refuses 1,0 '"0" is no speed'
refuses 1,-2 '"-2" is no speed'
refuses 1,fast '"fast" is no speed'
refuses 1, 'what is left out is no speed'
refuses 1,inf '"inf" is no speed'

losses() {
    sed -n 's/^step \([0-9]*\)\/4  loss \([0-9.]*\) .*/\1 \2/p' "$1"
}
"$tutti" train gpt.yaml run=free -n 2 >free.out 2>err || fail "free: $(cat err)"
"$tutti" train gpt.yaml run=slow -n 2 trial.pace=0.5,0.5 >slow.out 2>err ||
    fail "paced: $(cat err)"
[ -n "$(losses free.out)" ] || fail "no losses"
[ "$(losses free.out)" = "$(losses slow.out)" ] || fail "a pace changes losses"
