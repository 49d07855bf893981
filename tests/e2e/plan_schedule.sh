# tutti plan --schedule: picture, figures and table of a job's stages; what it prints is
# read by pipe.schedule; figures are those of the table.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME="$folder/state" XDG_CACHE_HOME="$folder/cache"
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

cat >gpt.yaml <<'END'
model: gpt
model.layers: 8
model.heads: 2
model.width: 32
model.context: 16
model.vocab: 32
data: synthetic
batch: 8
accumulate: 8
mesh.pipe: 4
END

"$tutti" plan gpt.yaml --schedule --svg a.svg >a.txt 2>err || fail "$(cat err)"
[ "$(grep -c '^# rank [0-3]  ' a.txt)" = 4 ] || fail "no picture: $(cat a.txt)"
grep -q '^# bubble .* by the formula' a.txt || fail "no bubble: $(cat a.txt)"
grep -q '<title>rank 3, row 1: forward' a.svg || fail "no picture in a.svg"
grep -q 'prefers-color-scheme' a.svg || fail "a.svg has no dark colours"

# Stage r of 1f1b holds 4 - r micro-batches; of gpipe all.
slots() {
    sed -n 's/^# [0-3]  .* %  *\([0-9]*\)  .*/\1/p' "$1" | tr '\n' ' '
}
[ "$(slots a.txt)" = '4 3 2 1 ' ] || fail "slots of 1f1b: $(slots a.txt)"
"$tutti" plan gpt.yaml --schedule pipe.schedule=gpipe >g.txt 2>err ||
    fail "$(cat err)"
[ "$(slots g.txt)" = '8 8 8 8 ' ] || fail "slots of gpipe: $(slots g.txt)"

# A text that was printed is read, and gives the same; changed, it is refused by its row.
"$tutti" plan gpt.yaml --schedule pipe.schedule=./a.txt >b.txt 2>err ||
    fail "a printed table is not read: $(cat err)"
cmp a.txt b.txt || fail "a table that was read is another one"
sed 's/B0.0:0</B0.0:1</' a.txt >c.txt
"$tutti" plan gpt.yaml --schedule pipe.schedule=./c.txt >out 2>err
[ $? -eq 2 ] || fail "a wrong table was taken"
grep -q 'rank 0, row' err || fail "which row? $(cat err)"

# The JSON has the plan's own memory of each stage, and zero-bubble waits less.
"$tutti" plan gpt.yaml --json >a.json 2>err || fail "$(cat err)"
"$tutti" plan gpt.yaml --json pipe.schedule=zb-h1 >z.json 2>err ||
    fail "$(cat err)"
for r in 0 3; do
    "$tutti" plan gpt.yaml --json --rank $r >$r.json 2>err || fail "$(cat err)"
done
python3 - <<'END' || exit 1
import json
a, z = json.load(open("a.json"))["pipe"], json.load(open("z.json"))["pipe"]
for r in 0, 3:
    want = json.load(open(f"{r}.json"))["peak_bytes"]
    assert a["stages"][r]["peak_bytes"] == want, (r, a["stages"][r], want)
assert 0 < z["bubble"] < 0.7 * a["bubble"], (z["bubble"], a["bubble"])
for p in a, z:
    for s in p["stages"]:
        work = sum(x["finish"] - x["start"] for x in s["rows"])
        assert abs(work - s["computing"]) < 1e-9, s
END

# Where the layers are cut is told, and these names make the same cut. A note says that one
# made by hand is uneven; the chosen one has none.
"$tutti" plan gpt.yaml >cut.txt 2>err || fail "$(cat err)"
grep -q '^cut: .*;.* % of the modelled time; .* cross each boundary; the slowest is' \
    cut.txt || fail "no word of the cut: $(cat cut.txt)"
! grep -q 'pipe.cut' err || fail "a note on the chosen cut: $(cat err)"
names=$(sed -n 's/^cut: \([^;]*\);.*/\1/p' cut.txt)
"$tutti" plan gpt.yaml pipe.cut="$names" >again.txt 2>err || fail "$(cat err)"
# Line 1 says how much memory is free at the moment.
cmp <(tail -n +2 cut.txt) <(tail -n +2 again.txt) || fail "pipe.cut=$names makes another cut"
"$tutti" plan gpt.yaml mesh.pipe=2 pipe.cut=lm_head --json >hand.json 2>err ||
    fail "$(cat err)"
grep -q 'note: pipe.cut: chunk 0 of 2 takes .* longer than the mean' err ||
    fail "no note on an uneven cut: $(cat err)"
python3 - "$names" <<'END' || exit 1
import json, sys
a = json.load(open("a.json"))["pipe"]
assert a["cut"] == sys.argv[1], (a["cut"], sys.argv[1])
shares = [c["share_percent"] for c in a["cut_chunks"]]
assert len(shares) == 4 and abs(sum(shares) - 100) < 1e-6, shares
excess = 100 * (max(shares) / 25 - 1)
assert abs(excess - a["slowest_excess_percent"]) < 1e-6, (excess, a)
# One sample of 16 tokens crosses: as many floats as the model is wide.
crossing = [c["bytes_in"] for c in a["cut_chunks"]]
assert crossing[0] == 0 and len(set(crossing[1:])) == 1, crossing
hand = json.load(open("hand.json"))["pipe"]
assert hand["cut"] == "lm_head" and hand["slowest_excess_percent"] > 10, hand
END

# The head of a run says it too.
"$tutti" train gpt.yaml -n 2 mesh.pipe=2 pipe.cut=lm_head train.steps=1 run=cut >out 2>err ||
    fail "$(cat out err)"
cat out err >all
grep -q '^ *cut  *lm_head; .* % of the modelled time' all || fail "no cut: $(cat all)"
grep -q 'pipe.cut: chunk 0 of 2 takes' all || fail "no note in a run: $(cat all)"

# A slow stage is one by trial.pace; a model that is not cut has no schedule.
"$tutti" plan gpt.yaml --schedule trial.pace=1,1,0.25,1 >p.txt 2>err ||
    fail "$(cat err)"
grep -q 'at the speeds trial.pace=1,1,0.25,1' p.txt || fail "no word of the pace"
"$tutti" plan gpt.yaml mesh.pipe=1 --schedule >out 2>err
[ $? -eq 2 ] || fail "a schedule of one stage"
grep -q 'not cut into stages' err || fail "$(cat err)"

# A rank runs what has arrived: with so many slots as the bound says, not where bits must
# be the same, and not where ranks of a stage work on one micro-batch together.
"$tutti" plan gpt.yaml --schedule pipe.schedule=message-driven >d.txt 2>err ||
    fail "$(cat err)"
[ "$(slots d.txt)" = '4 4 4 4 ' ] || fail "slots by messages: $(slots d.txt)"
refused() {
    "$tutti" plan gpt.yaml pipe.schedule=message-driven "$@" >out 2>err
    [ $? -eq 2 ] || fail "not refused: $* $(cat err)"
    grep -q 'pipe.schedule=message-driven.*1f1b' err || fail "why? $(cat err)"
}
refused exact=true
refused mesh.tensor=2
refused mesh.data=2 batch=16 zero=3

# A table by hand may take micro-batches in any order: each gets its own data. Not so where
# bits must be the same, and where averages are taken in that order.
cat >back.txt <<'END'
schedule back
fill
ranks 2
chunks 2
micro 4
place 0 1
rank 0
 F0.3 F0.1 B0.3 F0.0 F0.2 B0.0 B0.1 B0.2 U0.3
rank 1
 F1.3 B1.3 F1.1 F1.0 B1.0 B1.1 F1.2 B1.2 U1.3
END
loss() {
    "$tutti" train gpt.yaml -n 2 mesh.pipe=2 accumulate=4 train.steps=5 \
        data.classes=16 data.size=200 threads=1 precision=fp64 run="$folder/$1" \
        pipe.schedule="$2" >out 2>err || fail "$(cat err)"
    sed -n 's/.*loss  *\([0-9.]*\) in training.*/\1/p' out
}
back=$(loss back ./back.txt)
[ -n "$back" ] || fail "no loss: $(cat out)"
[ "$back" = "$(loss one 1f1b)" ] || fail "another order, another loss: $back"
printf '%s\n' 'model: resnet18' 'model.width: 8' 'model.classes: 10' \
    'data: synthetic' 'image: 32' 'batch: 16' >resnet.yaml
for file in 'gpt.yaml exact=true' resnet.yaml; do
    # shellcheck disable=SC2086 # settings
    "$tutti" plan $file mesh.pipe=2 accumulate=4 pipe.schedule=./back.txt \
        >out 2>err
    [ $? -eq 2 ] || fail "not refused: $file $(cat err)"
    grep -q 'row 1 of rank 0 .* in their order' err || fail "why? $(cat err)"
done

# Two copies of the model: not where sums have one rank's order, and not where averages
# are taken over all micro-batches.
"$tutti" plan gpt.yaml --schedule pipe.schedule=chimera >c.txt 2>err ||
    fail "$(cat err)"
grep -q "^# rank 0 .*b2" c.txt || fail "no second copy: $(cat c.txt)"
for file in 'gpt.yaml exact=true' resnet.yaml; do
    # shellcheck disable=SC2086 # settings
    "$tutti" plan $file mesh.pipe=2 accumulate=4 pipe.schedule=gems >out 2>err
    [ $? -eq 2 ] || fail "not refused: $file $(cat err)"
    grep -q 'two copies of the model .*1f1b' err || fail "why? $(cat err)"
done
