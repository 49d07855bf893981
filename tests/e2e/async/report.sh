# What is told of workers at their own pace: staleness, where time went, who was slow and who
# was refused, in the table, in metrics, in --json, in workers.json and in the report, whose
# tags match and which asks for nothing from elsewhere.
# deadline: 120
set -eu
. tests/script_begin

# train RUN RANKS SETTINGS... - what it says goes to files.
train() {
    run=$folder/$1 ranks=$2
    shift 2
    "$TUTTI" train model=mlp model.layers=2 model.width=16 data=synthetic image=8 batch=16 optim.lr=0.05 \
        optim=momentum run="$run" train.steps=12 threads=1 log.every=4 exchange.policy=ps \
        exchange.replicas=4 -n "$ranks" "$@" >"$folder/out" 2>"$folder/err" ||
        die "$*: $(cat "$folder/out" "$folder/err")"
}

says() {
    grep -q "$1" "$folder/out" "$folder/err" || die "not said: $1: $(cat "$folder/out" "$folder/err")"
}

# One of four at half speed, and one clock that waits for it.
train slow 1 exchange.clock=ssp exchange.bound=2 trial.pace=1,1,1,0.5
says 'slow: worker 3 (rank 0) [12].[09] times as long'
says 'worker .*gradients .*staleness .*held'
train json 2 exchange.schedule=wall exchange.clock=backup --json

python3 - "$folder" <<'P' || die 'numbers about workers do not add up'
import json, sys
folder = sys.argv[1]
slow = json.load(open(folder + "/slow/workers.json"))
wall = json.load(open(folder + "/json/workers.json"))
told = json.loads(open(folder + "/out").read())["workers"]
assert told["updates"] == wall["updates"] and told["histogram"] == wall["histogram"]
assert "bars" in wall["workers"][0] and "bars" not in told["workers"][0]
for w in slow, wall:
    rows = w["workers"]
    assert len(rows) == 4 and sum(r["gradients"] for r in rows) == w["gradients"] == 48
    assert sum(r["dropped"] for r in rows) == w["dropped"]
    assert sum(w["histogram"]) <= w["gradients"] - w["dropped"]
    assert w["server"]["busy_seconds"] <= w["server"]["seconds"]
    for r in rows:
        # All of its time is there, and the bars have it too, to rounding.
        assert abs(sum(r["time"].values()) - w["time"]) < 1e-6 * w["time"], (r["time"], w["time"])
        assert len(r["bars"]) <= 96
        bars = [w["bar"] * sum(b[c] for b in r["bars"]) / 1000 for c in range(5)]
        for mine, whole in zip(bars, r["time"].values()):
            assert abs(mine - whole) <= 96 * w["bar"] / 1000, (bars, r["time"])
assert wall["dropped"] > 0 and wall["staleness"] == 0
assert slow["workers"][3]["slow"] > 1.8 and slow["workers"][3]["time"]["held"] == 0
assert max(r["time"]["held"] for r in slow["workers"][:3]) > 1
lines = [json.loads(l) for l in open(folder + "/slow/metrics.jsonl")]
last = [l for l in lines if "workers/updates" in l]
assert len(last) == 3 and last[-1]["workers/updates"] == slow["updates"], last
P

for run in slow json; do
    page=$folder/$run/report.html
    for text in '<h2>Workers</h2>' '>Staleness<' 'Where the time of workers went' 'role="img"' 'scope="row">3<'; do
        grep -qF "$text" "$page" || die "the report of $run has no $text"
    done
    if grep -v 'http-equiv' "$page" | grep -qE 'http|<script [^>]*src|<link|src=|@import|url\(|fetch\(|XMLHttp'; then
        die 'the report asks for something from elsewhere'
    fi
    python3 - "$page" <<'P' || die "the tags of the report of $run do not match"
import html.parser, sys
class Tags(html.parser.HTMLParser):
    open = []
    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)
    def handle_startendtag(self, tag, attributes):
        pass
    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open, self.getpos())
        self.open.pop()
tags = Tags()
tags.feed(open(sys.argv[1], encoding="utf-8").read())
assert not tags.open, tags.open
P
done
grep -q 'Slow: worker 3' "$folder/slow/report.html" || die 'the report does not say who is slow'

# Refused gradients are named by worker.
train bad 2 exchange.limit=0.9 optim.lr=0.001
says 'has refused .* of worker [0-3] (rank [01])'
grep -q 'has refused' "$folder/bad/report.html" || die 'the report does not say who was refused'

# Systems side by side: staleness where there is one, by a drawn clock and by the wall's.
for clock in seeded wall; do
    "$TUTTI" compare examples/mlp-tiny.yaml ddp downpour -n 2 train.steps=4 log.every=1 threads=1 \
        --no-timeline $([ $clock = wall ] || echo --seeded) run="$folder/compared-$clock" \
        >"$folder/out" 2>"$folder/err" || die "compare: $(cat "$folder/err")"
    grep -q '^system .*staleness$' "$folder/out" || die "no column of staleness: $(cat "$folder/out")"
    grep -q '^ddp .* -$' "$folder/out" || die "ddp has staleness: $(cat "$folder/out")"
    grep -q '^downpour .* [0-9.]*$' "$folder/out" || die "downpour has none: $(cat "$folder/out")"
    [ $clock = "$([ -f "$folder/compared-$clock/downpour-1/schedule.txt" ] && echo wall || echo seeded)" ] ||
        die "$clock: downpour went by the other clock"
done
cmp -s "$folder"/compared-seeded/downpour-[12]/checkpoints/step-00000004/model.safetensors ||
    die 'a drawn clock gives other weights in the second round'
grep -q '^downpour .* [1-9][0-9]*%  ' "$folder/out" || die "by the wall clock nobody waited: $(cat "$folder/out")"
grep -qF '<th scope="col">staleness</th>' "$folder/compared-wall/index.html" || die 'the page has no staleness'
