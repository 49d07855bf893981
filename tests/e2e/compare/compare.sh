# Comparisons: the table, JSON, CSV and the page; what cannot run has its sentence; ends;
# what is finished is not run again; Ctrl-C stops and the same command goes on.
# deadline: 300
set -eu
. tests/script_begin

command -v python3 >/dev/null || {
    echo "python3 is not installed"
    exit 77
}

compare() {
    "$TUTTI" compare examples/mlp-tiny.yaml threads=1 run="$folder/c" "$@" \
        >"$folder/out" 2>"$folder/err"
}

compare ddp megatron-intra nosuch vdnn --repeat 2 -n 2 train.steps=12 --json \
    --csv "$folder/c.csv" || die "compare: $(cat "$folder/err")"
python3 - "$folder" <<'TEXT' || die 'the JSON, CSV or page is wrong'
import csv, json, re, sys
folder = sys.argv[1]
r = json.load(open(folder + "/out"))
assert r["ranks"] == 2 and r["rounds"] == 2
ddp, intra, nosuch, vdnn = r["systems"]
for s in ddp, intra:
    assert 0 < s["step_seconds"]["low"] <= s["step_seconds"]["median"]
    assert s["bytes"] > 0 and s["memory_bytes"] > 0 and len(s["curve"]) == 13
# The same numbers: both are exact. Weights that are cut need less memory.
for a, b in zip(ddp["curve"], intra["curve"], strict=True):
    assert a[0] == b[0] and abs(a[2] - b[2]) < 1e-4, (a, b)
assert intra["memory_bytes"] < ddp["memory_bytes"]
assert nosuch["refusal"] == 'unknown system "nosuch"; `tutti list systems` names all'
assert "device=cpu" in vdnn["refusal"]
rows = list(csv.DictReader(open(folder + "/c.csv")))
assert [x["system"] for x in rows] == ["ddp", "megatron-intra", "nosuch", "vdnn"]
assert float(rows[0]["bytes"]) == ddp["bytes"] and rows[3]["refusal"] == vdnn["refusal"]
page = open(r["page"]).read()
assert not re.search(r"https?://|src=|@import|url\(", page), "a request leaves it"
for text in ("Loss against bytes sent", "Memory against speed", "One step of each",
             "rank 1", "What they are", "--csv", "megatron-intra", "unknown system"):
    assert text in page, text
assert page.count("role=\"img\"") >= 5 and page.count("aria-label") >= 5
# Tables and what scrolls have names; bytes are bytes; a reading says whose it is.
assert not re.search(r"<table(?![^>]*aria-label)[^>]*>", page), "a table without a name"
assert not re.search(r'class="rows"(?![^>]*aria-label)[^>]*>', page), "no name to tab to"
words = re.search(r'aria-label="(Loss against bytes[^"]*)"', page).group(1)
assert re.search(r" at 0 B to \S+ at [\d.]+ [kM]B", words) and "step" not in words, words
assert re.search(r"<s class=r1>megatron-intra [\d.]+</s>", page)
TEXT

# What is finished is not run again; a system may be added.
compare ddp megatron-intra zero-1 --repeat 2 -n 2 train.steps=12 --no-timeline ||
    die "again: $(cat "$folder/err")"
grep -q 'ddp-2: is there already' "$folder/err" || die 'ran again'
grep -q 'zero-1-1: done' "$folder/err" || die 'did not run'
grep -q '^zero-1 ' "$folder/out" || die "no row: $(cat "$folder/out")"

# Other settings are another comparison.
compare ddp -n 2 train.steps=13 && die 'other settings are taken'
grep -q 'other settings; run=FOLDER' "$folder/err" || die "$(cat "$folder/err")"
compare ddp -n 2 train.steps=13 --repeat 1 --fresh --no-timeline ||
    die "--fresh: $(cat "$folder/err")"
[ -d "$folder/c.1" ] || die 'the old one is gone'

# Bad words: one sentence, before anything is started.
for words in '-n2 --link 1furlong' '-n2 --until forever' '-n2 --repeat 0' \
    '--repeat 1' '-n2 system=ddp' '-n2 --link 0' '-n0' '-n2 --latency 50' \
    '-n2 --pace 1,1,1' '-n2 --pace 1,x' '-n2 --pace=' '-n2 --csv=' \
    "-n2 --csv $folder/no/such.csv" '-n2 --where codec=' '-n2 --where nosuch=1' \
    '-n2 --system systems/ddp.yaml' '-n2 nosuch=1' '-n2 model.width=-3'; do
    status=0
    # shellcheck disable=SC2086
    compare ddp zero-1 nosuch run="$folder/bad" $words || status=$?
    [ "$status" -eq 2 ] || die "$words: exit status $status"
    [ "$(wc -l <"$folder/err")" -eq 1 ] || die "$words: $(cat "$folder/err")"
    [ ! -e "$folder/bad" ] || die "$words: it has begun"
done
compare --where codec=nosuch -n 2 && die 'systems that there are not'
grep -q 'no system is so' "$folder/err" || die "$(cat "$folder/err")"

# A folder that holds something else is left alone; two at a time are one too many.
mkdir "$folder/other"
echo mine >"$folder/other/mine"
compare ddp -n 2 run="$folder/other" && die 'another folder is taken'
grep -q 'has mine and is not the folder of a comparison' "$folder/err" ||
    die "$(cat "$folder/err")"
[ "$(ls "$folder/other")" = mine ] || die 'something is in it'

# Patterns, federations, and a system of one's own, which may not change meanwhile.
sed 's/exchange.bucket: .*/exchange.bucket: 1m/' systems/ddp.yaml >"$folder/own.yaml"
own() {
    compare 'fsd*' fedsgd a-bsp rudra --system "$folder/own.yaml" -n 2 run="$folder/own" \
        train.steps=2 --repeat 1 --no-timeline "$@"
}
own || die "$(cat "$folder/err")"
grep -q 'did not run' "$folder/out" && die "$(cat "$folder/out")"
grep -q '^own ' "$folder/out" || die "no row: $(cat "$folder/out")"
grep -q overrides "$folder/err" && die 'it is read as settings'
sed -i 's/1m$/2m/' "$folder/own.yaml"
own && die 'another system under the same name'
grep -q 'own.yaml has changed since' "$folder/err" || die "$(cat "$folder/err")"
compare vdnn -n 2 run="$folder/none" train.steps=2 && die 'nothing ran and all is well'
grep -q '^vdnn did not run: ' "$folder/out" || die 'no sentence'

# A typo leaves nothing behind that the right word would meet.
for word in dpd 'nosuch*' nosuch.yaml; do
    compare --system "$word" -n 2 run="$folder/typo" && die "$word is known"
    [ "$(wc -l <"$folder/err")" -eq 1 ] || die "$word: $(cat "$folder/err")"
    [ ! -e "$folder/typo" ] || die "$word: it has begun"
done
compare dpd -n 2 run="$folder/typo" || grep -q 'did you mean ddp' "$folder/err" ||
    die "no sentence: $(cat "$folder/err")"
compare ddp -n 2 train.steps=many run="$folder/typo" && die 'many steps'
grep -q 'train.steps=many: is no number' "$folder/err" || die "$(cat "$folder/err")"

# Another program starts the ranks, or says why it cannot.
compare ddp -n 2 run="$folder/launch" train.steps=2 --repeat 1 --no-timeline \
    --launch 'env TUTTI_PROBE=launched' || die "--launch: $(cat "$folder/err")"
grep -q '^ddp ' "$folder/out" || die "no row: $(cat "$folder/out")"
compare ddp -n 2 run="$folder/nolaunch" train.steps=2 --launch nosuchprogram &&
    die 'a launcher that is not there is taken'
grep -q 'nosuchprogram: cannot be started' "$folder/err" || die "$(cat "$folder/err")"

# A loss ends a run, on slow links.
compare ddp dgc -n 2 run="$folder/until" --until loss=2.2 --repeat 1 --no-timeline \
    --link 1gbit --latency 20us train.steps=4000 --json || die "$(cat "$folder/err")"
python3 - "$folder/out" <<'TEXT' || die '--until loss'
import json, sys
for s in json.load(open(sys.argv[1]))["systems"]:
    assert s["curve"][-1][0] < 4000 and s["seconds_to_loss"]["median"] > 0, s
TEXT

compare ddp -n 2 run="$folder/few" --until loss=0.5 --repeat 1 --no-timeline ||
    die "$(cat "$folder/err")"
grep -q '^ddp did not come to a loss of 0.5 in 20 steps; train.steps=N' "$folder/out" ||
    die "not said: $(cat "$folder/out")"

# Where most steps send next to nothing, bytes are means; so is the time of workers that do not wait.
compare easgd downpour -n 2 run="$folder/uneven" train.steps=16 --repeat 1 \
    --no-timeline --json || die "$(cat "$folder/err")"
python3 - "$folder" <<'TEXT' || die 'means of uneven steps'
import json, sys
folder = sys.argv[1]
def later(system, name):
    rows = map(json.loads, open(f"{folder}/uneven/{system}-1/metrics.jsonl"))
    v = [r[name] for r in rows if name in r]
    return v[len(v) // 4:]
easgd, downpour = json.load(open(folder + "/out"))["systems"]
sent = later("easgd", "comm/bytes")
assert sorted(sent)[len(sent) // 2] < easgd["bytes"] / 4, sent
for s, name, key in (easgd, "easgd", "comm/bytes"), (downpour, "downpour", "step_seconds"):
    v = later(name, key)
    told = s["bytes"] if key == "comm/bytes" else s["step_seconds"]["median"]
    assert told > 0 and abs(told - sum(v) / len(v)) < 0.01 * told, (name, told, v)
TEXT

# Whoever is killed leaves no run behind that is in the way of the next.
"$TUTTI" compare examples/mlp-tiny.yaml threads=1 ddp -n 2 run="$folder/killed" \
    train.steps=3000 --repeat 1 --no-timeline >"$folder/out" 2>&1 &
for _ in $(seq 100); do
    [ -s "$folder/killed/ddp-1/metrics.jsonl" ] && break
    sleep 0.05
done
kill -KILL "$!"
wait "$!" || true
compare ddp -n 2 run="$folder/killed" train.steps=3000 --repeat 1 --no-timeline ||
    die "after kill: $(cat "$folder/out" "$folder/err")"
grep -q '^ddp  *[0-9]' "$folder/out" || die "after kill: $(cat "$folder/out")"

# A signal, then the same command.
set -- ddp zero-1 -n 2 run="$folder/stop" --until time=2 --repeat 1 --no-timeline
"$TUTTI" compare examples/mlp-tiny.yaml threads=1 "$@" >"$folder/out" 2>"$folder/err" &
sleep 1
kill -TERM "$!"
status=0
wait "$!" || status=$?
[ "$status" -eq 3 ] || die "stopped with $status: $(cat "$folder/err")"
[ ! -e "$folder/stop/ddp-1.json" ] || die 'it counts as finished'
compare "$@" || die "going on: $(cat "$folder/err")"
grep -q '^zero-1 ' "$folder/out" || die 'it did not go on'
