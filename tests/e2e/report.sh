# A run leaves a report that needs nothing else; it can be written again, also
# when some of its sources are missing or damaged.
# deadline: 120
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder"
run="$folder/a <b> & 'c'"

die() {
    echo "$1"
    exit 1
}

# fails WANTED WORD... - one sentence, exit status 2.
fails() {
    wanted=$1
    shift
    status=0
    "$TUTTI" "$@" >"$folder/out" 2>"$folder/err" || status=$?
    [ $status -eq 2 ] && grep -q "$wanted" "$folder/err" ||
        die "tutti $*: exit $status, $(cat "$folder/err")"
    [ "$(wc -l <"$folder/err")" -eq 1 ] || die "tutti $*: more than a line"
}

"$TUTTI" train examples/mlp-tiny.yaml run="$run" threads=1 eval.every=10 \
    >"$folder/out"
page=$run/report.html
[ -s "$page" ] || die 'training leaves no report'
for text in '<svg' 'a &lt;b&gt; &amp; &#39;c&#39;' 'Learning rate' 'mlp' \
    'best validation accuracy' 'prefers-color-scheme' '>done<'; do
    grep -qF "$text" "$page" || die "the report has no $text"
done
# http-equiv asks for nothing.
if grep -v 'http-equiv' "$page" |
    grep -qE 'http|<script [^>]*src|<link|src=|@import|url\(|fetch|XMLHttp'; then
    die 'the report asks for something from elsewhere'
fi
if command -v python3 >/dev/null; then
    python3 - "$page" <<'P' || die 'the tags of the report do not match'
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
fi

cp "$page" "$folder/before"
rm "$page"
[ "$("$TUTTI" report "$run")" = "$page" ] || die 'what tutti report prints'
cmp -s "$page" "$folder/before" || die 'the report is not the same again'

printf '{"step": 30, "train/lo' >>"$run/metrics.jsonl"
rm "$run/facts.json" "$run/config.yaml"
"$TUTTI" report "$run" --json | grep -q '"report":' || die 'report --json'
grep -q '<svg' "$page" || die 'a report without facts has no curves'

fails 'which run' report
fails 'no folder' report "$folder/missing"
fails 'no folder of a run' report "$folder"

# A start that makes no steps leaves the account of time of those that were made, on one
# rank and on two.
for n in 1 2; do
    run=$folder/over$n
    for start in 1 2; do
        "$TUTTI" train examples/mlp-tiny.yaml run="$run" threads=1 -n $n \
            >"$folder/out" 2>&1
        sed -n '/Where the time went/,/<\/section>/p' "$run/report.html" \
            >"$folder/time$start"
    done
    grep -q 'all steps were made before' "$folder/out" || die 'it made steps'
    grep -qF 'computing' "$folder/time1" || die 'no account of time'
    cmp -s "$folder/time1" "$folder/time2" ||
        die "a start without steps changed the account of time on $n ranks"
    grep -qF '>done<' "$run/report.html" || die 'it is not done any more'
done

# The account is of all starts.
rm -rf "$run"
for stop in 5 10; do
    "$TUTTI" train examples/mlp-tiny.yaml run="$run" threads=1 train.steps=10 \
        train.stop=$stop >"$folder/out" 2>&1 || die "$(cat "$folder/out")"
    cp "$run/facts.json" "$folder/facts$stop"
done
python3 - "$folder" <<'P' || die 'the account of time is not of all starts'
import json, sys
first, both = (json.load(open("%s/facts%d" % (sys.argv[1], n)))["time"]
               for n in (5, 10))
parts = sum(v for k, v in both.items() if k != "total")
assert all(both[k] >= first[k] for k in first), (first, both)
assert both["total"] > first["total"] and both["computing"] > first["computing"]
assert abs(parts - both["total"]) < 1e-3 + 0.02 * both["total"], (parts, both)
P

# What run it is.
rm -rf "$run"
run=$folder/told
"$TUTTI" train examples/gpt-tiny.yaml run="$run" threads=1 eval.every=10 \
    sample.every=10 sample.tokens=8 optim.lr=0.002 >"$folder/out"
page=$run/report.html
for text in '<th scope="row">seed</th>' '<th scope="row">host</th>' \
    '<th scope="row">version</th><td>Tutti' '>started <time' \
    'tutti train examples/gpt-tiny.yaml run=' \
    '<th scope="row">optim.lr</th><td>0.002<' '<h2>Samples</h2>' \
    '<summary>step 20</summary>' 'starting and the rest'; do
    grep -qF "$text" "$page" || die "the report does not say $text"
done
grep -q 'step 10: sample$' "$run/log.txt" || die 'the log has no sample'
for text in _hparams_/session_start_info _hparams_/session_end_info optim.lr \
    sample; do
    grep -qaF $text "$run"/events.out.tfevents.* || die "the events have no $text"
done
grep -q 'scope="row">batch</th>' "$page" || die 'no batch'
if grep -q '<th scope="row">device</th><td>cpu</td></tr><tr><th scope="row">eval.batches' "$page"; then
    die 'a default is among what differs'
fi

# A fork shows its parent.
"$TUTTI" train examples/gpt-tiny.yaml run="$run" threads=1 eval.every=10 \
    optim.lr=0.001 train.steps=30 --fork >"$folder/out"
grep -qF 'class="line parent"' "$run-fork/report.html" ||
    die 'a fork does not show its parent'
grep -qF 'forked from told' "$run-fork/report.html" || die 'whose fork it is'

# Why a run failed is said first.
if "$TUTTI" train examples/gpt-tiny.yaml run="$folder/bad" threads=1 \
    optim=sgd optim.lr=1000 optim.clip=0 >"$folder/out" 2>"$folder/err"; then
    die 'a learning rate of 1000 does no harm'
fi
why=$(sed -n 's/^tutti: \([a-z]* [a-z]*\).*/\1/p' "$folder/err")
grep -F 'role="alert"' "$folder/bad/report.html" | grep -qF "$why" ||
    die "the report does not say why it failed: $why"
grep -qF 'is-bad">failed<' "$folder/bad/report.html" || die 'it is not red'

# It is there while the run goes on, new after an evaluation, and reads itself again.
run=$folder/long
"$TUTTI" train examples/gpt-tiny.yaml run="$run" threads=1 eval.every=20 \
    train.steps=1000000 >"$folder/out" 2>&1 &
pid=$!
tries=0
until grep -qsF 'class="line val"' "$run/report.html"; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || {
        kill $pid
        die 'no report while the run goes on'
    }
    sleep 0.1
done
grep -qF 'http-equiv="refresh"' "$run/report.html" || {
    kill $pid
    die 'the page of a running run is not read again'
}
kill $pid
wait $pid || true
if grep -qF 'http-equiv="refresh"' "$run/report.html"; then
    die 'the page of a run that ended is read again'
fi
# One that was killed cannot say so itself.
"$TUTTI" train examples/gpt-tiny.yaml run="$run" threads=1 eval.every=20 \
    train.steps=1000000 >"$folder/out" 2>&1 &
pid=$!
sleep 0.5
tries=0
until grep -qsF 'http-equiv="refresh"' "$run/report.html"; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || die 'it does not go on'
    sleep 0.1
done
kill -9 $pid
wait $pid || true
"$TUTTI" report "$run" >"$folder/out"
grep -qF 'is-bad">killed<' "$run/report.html" || die 'it was killed'
if grep -qF 'http-equiv="refresh"' "$run/report.html"; then
    die 'the page of a killed run is read again'
fi
