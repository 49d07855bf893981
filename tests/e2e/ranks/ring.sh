# Ring attention in the trace of a real run: the keys and values that a rank attends to
# next are on their way before it begins with those that it has. Orders, not times.
# deadline: 120
set -eu
command -v python3 >/dev/null || exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder/state"

trace() {
    ranks=$1
    shift
    "$TUTTI" train examples/gpt-tiny.yaml batch=2 train.steps=3 data.size=5000 \
        mesh.context="$ranks" run="$folder/run" log.trace="$folder/trace.json" \
        precision=bf16 threads=1 --fresh -n "$ranks" "$@" >"$folder/out" 2>&1 || {
        cat "$folder/out"
        exit 1
    }
    python3 - "$folder/trace.json" "$ranks" <<'P'
import json
import sys

events = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X"]
ranks, near = int(sys.argv[2]), 0.01  # times are written in thousandths


def begun(e):
    return e["ts"] - e["args"]["queued_us"]


def check(blocks, flights, what):
    """Before block s: those for s + 1 were begun, and those for it are here."""
    assert len(blocks) == ranks, f"{what}: {len(blocks)} blocks"
    assert len(flights) == 2 * (ranks - 1), f"{what}: {len(flights)} transfers"
    for s, block in enumerate(blocks):
        at = block["ts"] + near
        n = sum(begun(e) <= at for e in flights)
        assert n == 2 * min(s + 1, ranks - 1), f"{what}, block {s}: {n} were begun"
        n = sum(e["ts"] + e["dur"] <= at for e in flights)
        assert n >= 2 * s, f"{what}, block {s}: {n} were over"


def look(rank, step, layer):
    mine = sorted((e for e in events if e["pid"] == rank
                   and step["ts"] <= e["ts"] < step["ts"] + step["dur"]),
                  key=lambda e: e["ts"])
    forward = [e for e in mine if e["name"] == f"{layer}: attention"]
    backward = [e for e in mine if e["name"] == f"{layer}: attention_grad"]
    flights = [e for e in mine if e.get("cat") == "comm" and e["name"] == layer]
    there = [e for e in flights if begun(e) <= forward[-1]["ts"] + near]
    # Gradients are wider than the keys and values with which they travel.
    size = there[0]["args"]["bytes"]
    again = [e for e in flights if e not in there and e["args"]["bytes"] == size]
    check(forward, there, f"rank {rank}, {layer}, forward")
    check(backward, again, f"rank {rank}, {layer}, backward")


for rank in range(ranks):
    steps = [e for e in events if e["pid"] == rank and e["name"].startswith("step ")]
    assert len(steps) == 3, f"{len(steps)} steps"
    for step in steps:
        for layer in "transformer.h.0", "transformer.h.1":
            look(rank, step, layer)
P
}

trace 2
trace 4
