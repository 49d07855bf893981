# A run on several ranks says what each of them did: under its summary, as JSON, in
# its metrics and its report; log.trace leaves one trace of all of them.
# deadline: 120
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder"
run=$folder/run

die() {
    echo "$1"
    exit 1
}

train() {
    "$TUTTI" train examples/gpt-tiny.yaml run="$run" threads=1 "$@"
}

train -n 3 train.stop=10 log.trace=true >"$folder/out"
grep -qE '^  rank  host +sent +messages +network busy +hidden +exposed +waited for others$' \
    "$folder/out" || die "no table: $(cat "$folder/out")"
[ "$(grep -cE '^  [012]     [^ ]+ .*B .* (us|ms|s)' "$folder/out")" -eq 3 ] ||
    die "no row per rank: $(cat "$folder/out")"
grep -qE '^  rank [012] \([^)]+\) came last in [0-9]+% of [0-9,]+ collectives, on average .* after the first$' \
    "$folder/out" || die "no straggler: $(cat "$folder/out")"
for key in exposed_seconds hidden_seconds bytes spread_seconds; do
    grep -q "\"comm/$key\":" "$run/metrics.jsonl" || die "metrics: no comm/$key"
done
for text in '<h2>Ranks</h2>' 'came last in' 'Communication per step' \
    'Spread of arrivals'; do
    grep -q "$text" "$run/report.html" || die "the report has no $text"
done

train -n 3 --json log.trace="$folder/here.json" >"$folder/json" 2>/dev/null
command -v python3 >/dev/null || exit 0
python3 - "$folder/json" "$run/ranks.json" "$run/trace.json" "$folder/here.json" <<'P'
import json, sys
end, kept, first, second = (json.load(open(path)) for path in sys.argv[1:])
assert end["ranks"] == kept["ranks"] and end["collectives"] == kept["collectives"]
assert [r["rank"] for r in kept["ranks"]] == [0, 1, 2]
for r in kept["ranks"]:
    assert r["bytes"] > 0 and r["messages"] > 0 and r["busy_seconds"] > 0, r
    assert r["kernel_seconds"] > 0 and r["host"], r
c = kept["collectives"]
assert c["count"] == sum(r["last"] for r in kept["ranks"]) > 0
assert c["straggler"] in range(3) and c["clock_error_seconds"] == 0
assert c["by_name"] and 0 < c["spread_seconds"] <= c["spread_max_seconds"]
for trace, steps in (first, range(1, 11)), (second, range(11, 21)):
    events = trace["traceEvents"]
    for rank in range(3):
        mine = [e for e in events if e["pid"] == rank]
        names = {e["tid"]: e["args"]["name"] for e in mine
                 if e["name"] == "thread_name"}
        assert names == {0: "steps", 1: "compute", 2: "network"}, names
        shown = [e for e in mine if e["ph"] == "X"]
        assert all(e["dur"] >= 0 and e["ts"] > 0 for e in shown)
        assert {e["tid"] for e in shown} == {0, 1, 2}
        assert {e["name"] for e in shown} >= {"step %d" % s for s in steps}
    # One clock: a collective ends nowhere before it began everywhere.
    flights = {}
    for e in events:
        if e["ph"] == "X" and e["tid"] == 2:
            flights.setdefault(e["args"]["number"], []).append(e)
    assert flights
    for number, parts in flights.items():
        assert len(parts) == 3, number
        assert len({e["name"] for e in parts}) == 1
        if parts[0]["args"]["bytes"] > 0:
            assert max(e["ts"] for e in parts) <= \
                min(e["ts"] + e["dur"] for e in parts) + 1000, parts
P

# Alone there is nothing to tell about ranks.
train train.steps=22 log.trace="$folder/alone.json" >"$folder/out"
python3 -m json.tool "$folder/alone.json" >/dev/null || die "no trace of one rank"
[ ! -e "$run/ranks.json" ] || die 'ranks.json of an earlier start'
if grep -q 'came last' "$folder/out" "$run/report.html"; then
    die 'one rank came last'
fi

# A rank by another clock, 5000 s ahead: all times are rank 0's.
unshare -T --monotonic 5000 true 2>/dev/null || exit 0
command -v mpirun.openmpi >/dev/null || exit 0
export ASAN_OPTIONS=fast_unwind_on_malloc=0 # or MPI's leaks have no names
# Open MPI keeps its files in one folder for all its jobs, which the last to end removes.
export OMPI_MCA_orte_tmpdir_base=$folder
set -- train examples/gpt-tiny.yaml run="$folder/apart" threads=1 log.trace=true
mpirun.openmpi --allow-run-as-root --oversubscribe -n 1 "$TUTTI" "$@" : \
    -n 1 unshare -T --monotonic 5000 "$TUTTI" "$@" >"$folder/out" 2>&1 ||
    die "mpirun: $(cat "$folder/out")"
python3 - "$folder/apart/ranks.json" "$folder/apart/trace.json" <<'P'
import json, sys
kept, trace = (json.load(open(path)) for path in sys.argv[1:])
assert 0 < kept["collectives"]["clock_error_seconds"] < 0.1, kept
assert kept["collectives"]["spread_seconds"] < 10, kept
first = [min(e["ts"] for e in trace["traceEvents"]
             if e["ph"] == "X" and e["pid"] == rank) for rank in range(2)]
assert abs(first[0] - first[1]) < 10e6, first
P
