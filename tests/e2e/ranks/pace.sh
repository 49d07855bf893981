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

# Times under a pace are marked wherever they are printed, and only there.
! grep -q pace free.out || fail "a run without a pace says it has one"
grep -q '^step 4/4 .* tokens/s paced' slow.out || fail "a rate without its mark"
grep -q '^  pace  *times were made by trial.pace' slow.out ||
    fail "the summary does not say so"
grep -q 'made by trial.pace' slow/report.html || fail "the report does not say so"
"$tutti" train gpt.yaml run=one mesh.pipe=1 trial.pace=2 --json >one.json \
    2>err || fail "one rank: $(cat err)"

# Stages: what they waited is in the table and in ranks.json, with the plan's slots and
# memory. The last stage is four times slower than the first, so the first waits for it.
"$tutti" train gpt.yaml run=late -n 2 trial.pace=0.4,0.1 --json >late.json \
    2>err || fail "late: $(cat err)"
"$tutti" plan gpt.yaml trial.pace=0.4,0.1 --json >plan.json 2>err ||
    fail "$(cat err)"
grep -q '^  rank  stage  bubble  by the schedule' slow.out || fail "no table"
python3 - <<'END' || exit 1
import json
assert json.load(open("one.json"))["paced"] is True
assert json.load(open("free/ranks.json"))["paced"] is False
end = json.load(open("late.json"))
assert end["paced"] is True
pipe = end["pipe"]
assert json.load(open("late/ranks.json"))["pipe"] == pipe
plan = json.load(open("plan.json"))["pipe"]
assert pipe["schedule"] == "1f1b" and pipe["stages"] == 2 and pipe["paced"]
for rank, stage in zip(pipe["ranks"], plan["stages"]):
    for key in "slots", "slot_bytes", "peak_bytes":
        assert rank[key] == stage[key], (key, rank, stage)
    assert set(rank["waited_seconds"]) <= {str(1 - rank["rank"])}, rank
    # Forward, backward of 4 micro-batches, and the update; in the order of the table.
    assert len(rank["rows"]) == 9, rank["rows"]
    want = [(row["chunk"], row["micro"]) for row in stage["rows"]][:8]
    assert [(row[1], row[2]) for row in rank["rows"]][:8] == want
    for row in rank["rows"]:
        assert row[4] - row[3] >= row[5] >= 0, row
first, last = pipe["ranks"]
assert first["bubble"] > 0.5 and last["bubble"] < 0.3, (first["bubble"], last["bubble"])
assert abs(first["bubble"] - plan["stages"][0]["bubble_percent"] / 100) < 0.15, (
    first["bubble"], plan["stages"][0]["bubble_percent"])
assert first["waited_seconds"]["1"] > 2 * last["waited_seconds"].get("0", 0)
END

# One step as a picture and in the trace: a lane per rank, all pieces that the table has.
"$tutti" train gpt.yaml run=traced -n 2 trial.pace=0.5,0.5 log.trace=true \
    pipe.schedule=zb-h1 >out 2>err || fail "traced: $(cat err)"
python3 - <<'END' || exit 1
import json, re
page = open("traced/report.html").read()
svg = page[page.index('<svg class="step"'):]
svg = svg[:svg.index("</svg>")]
assert re.findall(r">rank (\d)</text>", svg) == ["0", "1"], svg[:300]
boxes = re.findall(r'<rect class="p-(.)" x="([0-9.]+)" y="(\d+)" width="([0-9.]+)"', svg)
for lane in "0", "30":
    kinds = [k for k, _, y, _ in boxes if y == lane]
    assert [kinds.count(k) for k in "fbwu"] == [4, 4, 4, 1], (lane, kinds)
    right = 0
    for k, x, y, width in boxes:
        if y == lane and k != "x":
            assert float(x) >= right - 0.02, "boxes overlap"
            right = float(x) + float(width)
assert any(k == "x" and y == "0" for k, _, y, _ in boxes), "nobody waits"
assert "input gradient" in page and "prefers-color-scheme:dark" in page
events = json.load(open("traced/trace.json"))["traceEvents"]
names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
         if e.get("name") == "thread_name"}
for rank in 0, 1:
    mine = [e for e in events if e["ph"] == "X" and e["pid"] == rank
            and names[rank, e["tid"]] == "stages"]
    kinds = [e["cat"] for e in mine]
    assert [kinds.count(k) for k in ("forward", "backward", "weight_grad", "update")] \
        == [4, 4, 4, 1], kinds
    assert all(e["args"]["paced"] for e in mine if e["cat"] != "bubble")
END
