# A dry run refuses what training would refuse, in the same words, and leaves nothing.
# deadline: 120
set -eu
folder=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 $pid 2>/dev/null || true; rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
gpt=$(realpath examples/gpt-tiny.yaml)
export XDG_STATE_HOME=$folder/state
cd "$folder"

die() {
    echo "$1"
    cat dry err 2>/dev/null || true
    exit 1
}

# both WORDS SETTING... - status 2 of both, with the same sentence that has these words.
both() {
    words=$1
    shift
    find . -path ./dry -prune -o -path ./err -prune -o -print | sort >before
    status=0
    "$tutti" train "$gpt" threads=1 "$@" --dry-run >out 2>dry || status=$?
    [ $status -eq 2 ] || die "--dry-run $*: status $status"
    find . -path ./dry -prune -o -path ./err -prune -o -print | sort >after
    cmp -s before after || die "--dry-run $* left something"
    status=0
    "$tutti" train "$gpt" threads=1 "$@" >out 2>err || status=$?
    [ $status -eq 2 ] || die "$*: status $status"
    grep -q -- "$words" dry || die "--dry-run $*: does not say $words"
    cmp -s dry err || die "$*: other words"
}
: >before
: >after
: >out

# Ranks and what carries their messages.
both 'start 2 (-n 2)' mesh.data=2 run=new
both 'does not fit 1 rank' mesh.tensor=2 run=new
both 'does not fit 2 ranks' mesh.tensor=3 -n 2 run=new
both 'from 1 to 256' -n 300 run=new
both 'transport=self is for one rank' transport=self -n 2 run=new
both 'comm.fault' comm.fault=nonsense -n 2 run=new

# Folders.
echo text >file
mkdir -p runs/empty
both 'file is a file and no folder' run=file
both 'file is a file and no folder' run=file/below/it
both 'is no folder' run=file --fresh
mkdir own
echo mine >own/config.yaml
both 'would write over its config.yaml' run=own
[ "$(cat own/config.yaml)" = mine ] || die 'a file of the user is gone'
both 'is not UTF-8' run="$(printf 'new\351')"
both 'no checkpoint to fork from' run=runs/empty --fork
both 'nowhere: cannot be opened' init.from=nowhere run=new

# A run that is there: going on, forks, fresh starts.
"$tutti" train "$gpt" threads=1 run=runs/a train.stop=3 >out 2>err || die 'training'
both 'holds other runs' run=runs
both 'trained with other settings' run=runs/a optim.lr=0.004
both 'trained with other settings' run=runs/a optim.lr=0.004 -n 2
both 'but the model wants' run=runs/a --fork model.width=32
for ok in '' --fork --fresh; do
    # shellcheck disable=SC2086
    "$tutti" train "$gpt" threads=1 run=runs/a --dry-run $ok >out 2>dry ||
        die "--dry-run $ok of what is well"
done
cp -r runs/a b
rm -r b/checkpoints/step-*
both 'its checkpoints are gone' run=b
cp -r runs/a c
rm -r c/checkpoints
both 'its checkpoints are gone' run=c

# One that goes on in another process.
"$tutti" train "$gpt" threads=1 run=live train.steps=100000000 >out.live 2>&1 &
pid=$!
tries=0
until grep -qs 'train/loss' live/metrics.jsonl; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || die 'it does not begin'
    sleep 0.1
done
for how in '' --fresh; do
    status=0
    # shellcheck disable=SC2086
    "$tutti" train "$gpt" threads=1 run=live train.steps=100000000 --dry-run $how \
        >out 2>dry || status=$?
    [ $status -eq 2 ] && grep -q "process $pid" dry || die "in use $how"
done
kill -9 $pid
wait $pid 2>/dev/null || true
pid=
"$tutti" train "$gpt" threads=1 run=live train.steps=100000000 --dry-run >out 2>dry ||
    die 'whoever had it is gone'

# Memory for a checkpoint is that of the way in which it will be saved: rank 0 copies all
# states if it holds them, or its own parts and room for a tensor, or nothing but a tensor.
snapshot() {
    "$tutti" train "$gpt" --dry-run --json run=new "$@" >out 2>dry ||
        die "--dry-run $*: it was refused"
    sed 's/.*"snapshot_bytes": *\([0-9]*\).*/\1/' out
}
whole=$(snapshot -n 1)
[ "$(snapshot -n 2 zero=0 checkpoint.memory=1)" -eq "$whole" ] ||
    die 'states that rank 0 holds whole are copied whatever checkpoint.memory is'
parts=$(snapshot -n 2 zero=3)
[ "$parts" -gt $((whole / 2)) ] && [ "$parts" -lt $((whole * 3 / 4)) ] ||
    die "ZeRO 3 on 2 ranks: $parts of $whole bytes"
[ "$(snapshot -n 2 zero=3 checkpoint.memory=1)" -lt $((whole / 10)) ] ||
    die 'one tensor at a time needs no more than that'
