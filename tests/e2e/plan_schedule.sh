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

# A slow stage is one by trial.pace; a model that is not cut has no schedule.
"$tutti" plan gpt.yaml --schedule trial.pace=1,1,0.25,1 >p.txt 2>err ||
    fail "$(cat err)"
grep -q 'at the speeds trial.pace=1,1,0.25,1' p.txt || fail "no word of the pace"
"$tutti" plan gpt.yaml mesh.pipe=1 --schedule >out 2>err
[ $? -eq 2 ] || fail "a schedule of one stage"
grep -q 'not cut into stages' err || fail "$(cat err)"
