# --json: one JSON value on standard output from every command, also when it fails.
# deadline: 240
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
examples=$(realpath examples)
if ! command -v python3 >/dev/null; then
    echo "python3 is not installed"
    exit 77
fi
cd "$folder"

die() {
    echo "$1"
    exit 1
}

# json STATUS WORD... - ends so, with JSON on standard output.
json() {
    wanted=$1
    shift
    status=0
    "$tutti" "$@" --json >out 2>err || status=$?
    [ $status -eq "$wanted" ] || die "tutti $*: status $status: $(cat err)"
    python3 -m json.tool out >/dev/null || die "tutti $*: not JSON: $(cat out)"
    [ "$wanted" -ne 2 ] || grep -q '^{"ok": false, "error": ".*", "exit_status": 2}$' out ||
        die "tutti $*: no error: $(cat out)"
}

for n in $(seq 300); do echo "line $n of a text"; done >my.txt
small='my.txt model.layers=1 model.width=16 model.heads=2 train.steps=2'
# shellcheck disable=SC2086
json 0 train $small
# shellcheck disable=SC2086
json 0 train $small --dry-run
grep -q '"total_bytes": [1-9]' out || die "no memory: $(cat out)"
# shellcheck disable=SC2086
json 2 train $small model.width=32
json 2 train
json 2 train nix.yaml
json 2 train my.txt batcch=3
json 0 sample runs/my tokens=3
json 2 sample nix
json 0 eval runs/my
json 2 eval nix
json 0 export runs/my out=exported
json 2 export runs/my
json 0 import exported out=imported
json 2 import nix out=x
json 0 inspect runs/my
json 0 inspect exported
json 0 inspect "$examples/gpt-tiny.yaml"
json 2 inspect nix
json 0 report runs/my
json 2 report nix
json 0 runs
json 0 runs list
json 0 runs show runs/my
json 0 runs compare runs/my runs/my
json 0 runs best
json 2 runs show nix
json 0 data train-bpe my.txt out=bpe vocab=270
json 0 data tokenize my.txt tokenizer=bpe out=tokens
json 0 data pack tokens_train.bin out=packed format=nanogpt
json 0 data inspect tokens_train.bin my.txt
json 2 data inspect nix
json 2 data
"$tutti" doctor --json >out || true
python3 -m json.tool out >/dev/null || die 'doctor'
json 0 plan my.txt
json 0 plan model=mlp -n 2
json 2 plan model=nix
json 2 plan model=gpt2-124m --memory 1MB
json 0 verify model=mlp image=4 batch=4 -n 2
json 2 verify model=mlp
for kind in '' models ops optimisers settings sources passes backends laws collectives \
    transports commands; do
    # shellcheck disable=SC2086
    json 0 list $kind
done
json 2 list nix
json 0 check cost only=gelu
json 2 check nix
json 0 bench gemm m=8 n=8 k=8
json 0 bench codec side=64 runs=1
printf 'model: mlp\nimage: 4\nbatch: 4\ndata: synthetic\noptim: adamw\noptim.beta1: 0.8\n' >b.yaml
json 0 bench codec b.yaml side=512 runs=1 steps=2 only=topk
json 0 list policies
json 0 list codecs
json 2 bench codec only=nix
json 0 bench allreduce ranks=1,2 bytes=8,1k seconds=0.01
python3 -c 'import json; d = json.load(open("out")); assert len(d) > 4, d' ||
    die "allreduce: $(cat out)"
# The best is the fastest that was seen, and the text says what its columns are.
json 0 bench gemm
python3 -c 'import json; d = json.load(open("out"))
assert all(0 < r["of_best"] <= 1 for r in d), d' || die "gemm: $(cat out)"
json 0 bench op "$examples/gpt-tiny.yaml" steps=1
python3 -c 'import json; d = json.load(open("out"))
assert all(0 <= r["of_bound"] <= 1 for r in d), d' || die "op: $(cat out)"
"$tutti" bench gemm m=8 >out
grep -q '^ *m  *n  *k  *time  *rate  *of best$' out || die "gemm: $(cat out)"
json 0 bench step model=mlp image=4 batch=2 threads=1 steps=1 warmup=0
json 0 bench op model=mlp image=4 batch=2 threads=1 steps=1
json 2 bench nix
json 0 version
json 2 nix
json 2 plan --nix

# Inside of a run, and from anywhere, its data are found; a file of that name where
# one happens to stand is not taken for them.
"$tutti" eval runs/my >here
# Of a text that is given, all is measured.
"$tutti" eval runs/my data.path=my.txt | grep samples >whole
"$tutti" eval runs/my data.val=my.txt | grep samples | cmp - whole || die 'a part of data.path is measured'
grep samples here | cmp -s - whole && die 'all of the data is held back'
mkdir elsewhere
echo 'other data' >elsewhere/my.txt
for place in runs/my runs/my/checkpoints elsewhere; do
    run=.
    [ $place != runs/my/checkpoints ] || run=..
    [ $place != elsewhere ] || run=../runs/my
    (cd $place && "$tutti" eval "$run") >there || die "eval in $place"
    [ "$(grep '^loss' here)" = "$(grep '^loss' there)" ] ||
        die "eval in $place: $(cat here there)"
done
# Moved together.
mkdir moved
mv my.txt runs moved
(cd moved/runs/my && "$tutti" eval .) >there || die 'eval of a run that was moved'
[ "$(grep '^loss' here)" = "$(grep '^loss' there)" ] || die 'moved: another loss'
