# Comparisons where systems are not alike: steps with other samples, launchers with exit
# statuses of their own, rounds that fail, clocks that are only drawn, odd names.
# deadline: 300
set -eu
. tests/script_begin

command -v python3 >/dev/null || {
    echo "python3 is not installed"
    exit 77
}

compare() {
    "$TUTTI" compare examples/mlp-tiny.yaml threads=1 "$@" \
        >"$folder/out" 2>"$folder/err"
}

# A step of a federation has the samples of its clients: losses are compared at samples, and
# all runs have as many as --until asks for. The page says that steps differ.
compare fedavg fedsgd ddp -n 2 run="$folder/samples" --until samples=2000 --repeat 1 \
    --no-timeline --json || die "samples: $(cat "$folder/err")"
python3 - "$folder" <<'TEXT' || die 'losses at equal samples'
import json, sys
folder = sys.argv[1] + "/samples/"
r = json.load(open(sys.argv[1] + "/out"))
assert r["samples"] == 2000, r["samples"]
units = {}
for s in r["systems"]:
    units[s["system"]] = per = json.load(open(f"{folder}{s['system']}-1/facts.json"))["units"]
    last = s["curve"][-1][0]
    assert 2000 <= last * per < 2000 + per, (s["system"], last, per)
    before = [v for step, _, v in s["curve"][1:] if step * per <= 2000][-3:]
    told = s["loss_at_samples"]["median"]
    assert abs(told - sum(before) / len(before)) < 1e-9, (s["system"], told, before)
assert units["ddp"] == 16 and units["fedavg"] > 100, units
page = open(r["page"]).read()
assert "global batch" not in page and "a step of some has other samples" in page
TEXT

# Where all have one batch it is said. Who is alone waits for nobody: nothing is exposed.
compare ddp -n 1 run="$folder/alone" train.steps=4 --repeat 1 --no-timeline --json ||
    die "alone: $(cat "$folder/err")"
python3 - "$folder/out" <<'TEXT' || die 'one rank waits for others'
import json, sys
r = json.load(open(sys.argv[1]))
assert r["systems"][0]["exposed_seconds"]["median"] is None
assert "initial weights and global batch" in open(r["page"]).read()
TEXT

# A launcher that is sent a signal ends with a status of its own.
cat >"$folder/launcher" <<'TEXT'
#!/bin/sh
"$@" &
job=$!
trap 'kill -TERM $job; wait $job || true; exit 143' TERM
wait $job
TEXT
chmod +x "$folder/launcher"
compare ddp -n 2 run="$folder/status" --until time=1 --repeat 1 --no-timeline \
    --launch "$folder/launcher" || die "status: $(cat "$folder/out" "$folder/err")"
grep -q '^ddp ' "$folder/out" || die "no row: $(cat "$folder/out")"

# A round that fails hides nothing of those before it, wherever one looks.
cat >"$folder/failing" <<'TEXT'
#!/bin/sh
case "$*" in
*/ddp-2*) echo '{"error": "the <second> round"}' && exit 1 ;;
esac
exec "$@"
TEXT
chmod +x "$folder/failing"
failing() {
    compare ddp zero-1 -n 2 run="$folder/rounds" train.steps=4 --repeat 2 \
        --launch "$folder/failing" --csv "$folder/rounds.csv" "$@"
}
failing || die "a round: $(cat "$folder/err")"
grep -q '^ddp  *[0-9]' "$folder/out" || die "no row: $(cat "$folder/out")"
grep -q '^ddp ran 1 of 2 rounds: the <second> round' "$folder/out" ||
    die "no sentence: $(cat "$folder/out")"
failing --json || die "a round: $(cat "$folder/err")"
python3 - "$folder" <<'TEXT' || die 'a round that fails'
import csv, json, sys
r = json.load(open(sys.argv[1] + "/out"))
ddp, zero = r["systems"]
assert ddp["failure"] == "the <second> round" and "refusal" not in ddp
assert ddp["rounds"] == 1 and zero["rounds"] == 2 and "failure" not in zero
assert ddp["step_seconds"]["median"] > 0 and len(ddp["curve"]) == 5
row = list(csv.DictReader(open(sys.argv[1] + "/rounds.csv")))[0]
assert float(row["bytes"]) > 0 and row["refusal"] == "the <second> round", row
page = open(r["page"]).read()
assert "ran 1 of 2 rounds: the &lt;second&gt; round" in page
TEXT

# A run whose folder was removed is made again.
rm -rf "$folder/rounds/zero-1-1"
failing || die "$(cat "$folder/err")"
grep -q 'zero-1-1: done' "$folder/err" || die "not made again: $(cat "$folder/err")"
grep -q 'zero-1-2: is there already' "$folder/err" || die 'the other one too'

# Where files of it are gone it says so, and has no numbers.
for file in facts.json metrics.jsonl; do
    rm -f "$folder/rounds/zero-1-1/$file" "$folder/rounds/zero-1-2/$file"
    failing --no-timeline || die "$(cat "$folder/err")"
    grep -q '^zero-1 did not run: .*/zero-1-1 has lost files' "$folder/out" ||
        die "without $file: $(cat "$folder/out")"
    rm -rf "$folder/rounds/zero-1-1" "$folder/rounds/zero-1-2"
    failing --no-timeline || die "$(cat "$folder/err")"
    grep -q '^zero-1  *[0-9]' "$folder/out" || die "not made again: $(cat "$folder/out")"
done

# Chains are known to the drawn clock alone, wherever they are set; proxies go by the wall clock too.
for setting in exchange.proxies=2 exchange.chain=2; do
    compare parameter-server -n 4 $setting run="$folder/$setting" train.steps=4 \
        --repeat 1 --no-timeline || die "$setting: $(cat "$folder/out")"
done
[ -s "$folder/exchange.proxies=2/parameter-server-1/schedule.txt" ] || die 'proxies do not go by the wall clock'
[ ! -e "$folder/exchange.chain=2/parameter-server-1/schedule.txt" ] || die 'chains go by the wall clock'

# Speeds are of ranks; clients and workers, of which a rank has several, have its own. The
# timeline of workers that do not wait has what they compute.
compare fedavg rudra petuum easgd -n 2 run="$folder/pace" train.steps=4 --repeat 1 \
    --pace 1,0.5 || die "--pace: $(cat "$folder/err")"
grep -q 'did not run' "$folder/out" && die "$(cat "$folder/out")"
grep -q '^fedavg: a drawn clock says who is next' "$folder/out" ||
    die "not said: $(cat "$folder/out")"
grep -q 'fedavg: a drawn clock' "$folder/pace/index.html" || die 'not on the page'
for system in fedavg petuum easgd; do
    for phase in forward backward update; do
        grep -q "\"cat\":\"$phase\"" "$folder/pace/$system-trace/trace.json" ||
            die "no $phase in the timeline of $system"
    done
done

# --fresh leaves a comparison that is running where it is; slashes are no part of a name.
"$TUTTI" compare examples/mlp-tiny.yaml threads=1 ddp -n 2 run="$folder/busy" \
    --until time=60 --repeat 1 --no-timeline >"$folder/busy.out" 2>&1 &
busy=$!
for _ in $(seq 100); do
    [ -e "$folder/busy/ddp-1" ] && break
    sleep 0.1
done
compare ddp -n 2 run="$folder/busy" train.steps=2 --fresh && die 'it is taken away'
[ ! -e "$folder/busy.1" ] || die 'it was moved while it was running'
grep -q 'busy' "$folder/err" || die "$(cat "$folder/err")"
kill -TERM "$busy"
wait "$busy" || true
compare ddp -n 2 run="$folder/busy//" train.steps=2 --fresh --repeat 1 --no-timeline ||
    die "slashes: $(cat "$folder/err")"
[ -d "$folder/busy.1" ] || die 'the old one is gone'

# Files with letters of patterns, spaces, quotes and tags in their names.
for name in 'my[1]' "a 'b\" <u>"; do
    cp systems/ddp.yaml "$folder/$name.yaml"
done
compare --system "$folder/my[1].yaml" --system "$folder/a 'b\" <u>.yaml" -n 2 \
    run="$folder/odd names" train.steps=4 --repeat 1 --csv "$folder/odd.csv" ||
    die "names: $(cat "$folder/out" "$folder/err")"
grep -q '^my\[1\]  *[0-9]' "$folder/out" || die "no row: $(cat "$folder/out")"
grep -q '^"a .b"" <u>",[0-9]' "$folder/odd.csv" || die "$(cat "$folder/odd.csv")"
grep -q '<u>' "$folder/odd names/index.html" && die 'a name is read as a tag'

# What was measured is shown also where the file for it cannot be written.
compare ddp -n 2 run="$folder/csv" train.steps=2 --repeat 1 --no-timeline \
    --csv /proc/nosuch.csv && die 'a file in /proc'
grep -q '^ddp ' "$folder/out" || die "no row: $(cat "$folder/out")"
