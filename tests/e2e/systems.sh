# Systems: they train on 4 ranks with a falling loss on the network that they were
# published for, those that are exact are verified, and plain data parallelism in four
# words has one loss. SYSTEMS=all takes all of them, SYSTEMS='gpipe zero-*' these, else
# every sixteenth.
# deadline: 1200
set -eu
. tests/script_begin

command -v python3 >/dev/null || {
    echo "python3 is not installed"
    exit 77
}

# falls RUN - the last three losses are below the first three.
falls() {
    python3 - "$1/metrics.jsonl" <<'TEXT'
import json, sys
v = [r["train/loss"] for r in map(json.loads, open(sys.argv[1])) if "train/loss" in r]
sys.exit(not (len(v) == 21 and sum(v[-3:]) < sum(v[:3])))
TEXT
}

# try NAME - trains it, and proves it if it says that it is exact.
try() {
    file=systems/$1.yaml
    net=examples/$(sed -n 's/^network: //p' "$file").yaml
    set -- "$1" "$net" system="$1" threads=1 -n 4
    if grep -q '^needs: cuda' "$file"; then
        "$TUTTI" train "$2" "$3" "$4" -n 4 run="$folder/$1" 2>"$folder/err" &&
            die "$1 trains without a GPU"
        grep -q 'device=cpu' "$folder/err" || die "$1: $(cat "$folder/err")"
        return
    fi
    "$TUTTI" train "$2" "$3" "$4" -n 4 run="$folder/$1" train.steps=20 log.every=1 \
        log.tensorboard=false checkpoint.every=0 --json >"$folder/out" \
        2>"$folder/err" || die "$1: $(tail -n 1 "$folder/err")"
    falls "$folder/$1" || die "$1: the loss does not fall"
    rm -rf "${folder:?}/$1"
    grep -q '^exact: true' "$file" || return 0
    "$TUTTI" verify "$2" "$3" "$4" -n 4 >"$folder/out" 2>&1 ||
        die "$1: $(cat "$folder/out")"
}

# wanted NAME NUMBER
wanted() {
    [ "${SYSTEMS:-}" != all ] || return 0
    [ -n "${SYSTEMS:-}" ] || [ $(($2 % 16)) -ne 5 ] || return 0
    for pattern in ${SYSTEMS:-}; do
        # shellcheck disable=SC2254
        case $1 in $pattern) return 0 ;; esac
    done
    return 1
}

set -f # patterns are of names, not of files
n=0
for name in $(cd systems && ls | sed 's/\.yaml$//'); do
    n=$((n + 1))
    ! wanted "$name" $n || try "$name"
done
set +f
[ -n "${SYSTEMS:-}" ] || try zero-infinity

# Plain data parallelism in other words: only collective and bucket differ.
for name in ddp horovod lbann-data firecaffe; do
    "$TUTTI" train examples/mlp-tiny.yaml system=$name precision=fp64 threads=1 \
        -n 4 run="$folder/$name" log.every=1 --json >/dev/null 2>"$folder/err" ||
        die "$name: $(cat "$folder/err")"
done
python3 - "$folder" <<'TEXT' || die 'plain data parallelism has several losses'
import json, sys
def losses(name):
    lines = map(json.loads, open(f"{sys.argv[1]}/{name}/metrics.jsonl"))
    return [r["train/loss"] for r in lines if "train/loss" in r]
first = losses("ddp")
assert len(first) == 21
for name in "horovod", "lbann-data", "firecaffe":
    for a, b in zip(first, losses(name), strict=True):
        assert abs(a - b) <= 1e-9 * abs(a), (name, a, b)
TEXT

# On one rank all kinds of exact data parallelism run the very steps of a plain run, and
# so take its time.
steps() {
    "$TUTTI" plan examples/gpt-tiny.yaml "$@" -n 1 --steps 2>"$folder/err" | grep -v '^fits'
}
steps >"$folder/plain"
n=0
for file in systems/*.yaml; do
    grep -q '^exact: true' "$file" && grep -q '^partition: data$' "$file" || continue
    grep -q 'recompute\|offload\|optim:\|accumulate\|exchange.policy' "$file" && continue
    steps system="$(basename "$file" .yaml)" >"$folder/steps"
    cmp -s "$folder/plain" "$folder/steps" ||
        die "$file: other steps than a plain run: $(diff "$folder/plain" "$folder/steps" | head)"
    n=$((n + 1))
done
[ $n -ge 15 ] || die "only $n kinds of data parallelism"

# A system of one's own is a file; its mistakes have a place.
sed 's/collective: ring/colective: ring/' systems/ddp.yaml >"$folder/mine.yaml"
"$TUTTI" train examples/mlp-tiny.yaml system="$folder/mine.yaml" -n 2 \
    run="$folder/mine" 2>"$folder/err" && die 'a wrong key is taken'
grep -q 'mine.yaml:[0-9]*:[0-9]*: colective: .*did you mean "collective"' "$folder/err" ||
    die "not said where: $(cat "$folder/err")"

# Tables.
"$TUTTI" list systems --json >"$folder/out"
python3 - "$folder/out" <<'TEXT' || die 'tutti list systems --json'
import json, os, sys
all = json.load(open(sys.argv[1]))
assert len(all) == len(os.listdir("systems")) >= 80
assert all[0]["settings"] and all[0]["lacks"]
TEXT
"$TUTTI" list systems --where codec=topk --where partition=data >"$folder/out"
grep -q '^gradient-dropping ' "$folder/out" || die 'list --where'
grep -q '^ddp ' "$folder/out" && die 'list --where has others'
"$TUTTI" list systems --where centralisation=CENTRAL >"$folder/out"
grep -q '^petuum ' "$folder/out" || die 'list --where: the beginning of a word'
grep -q '^ddp ' "$folder/out" && die 'decentralised is taken for centralised'
"$TUTTI" list systems --where codec=nonesuch 2>"$folder/err" && die 'an empty list'
"$TUTTI" list systems --where codec= 2>"$folder/err" && die 'an empty word'
"$TUTTI" show system gpipe -n 4 | grep -q 'mesh.pipe=4' || die 'show system'
"$TUTTI" show system "$folder/mine.yaml" >"$folder/out" 2>&1 &&
    grep -q "system=$folder/mine.yaml -n 4" "$folder/out" || die "$(cat "$folder/out")"
"$TUTTI" show system gpip 2>&1 | grep -q 'did you mean gpipe' || die 'show gpip'
"$TUTTI" plan examples/gpt-tiny.yaml system=zero-3 -n 4 >"$folder/out" || die plan
