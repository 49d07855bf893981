# The bubble that stages measure under a pace is the one that the schedule's formula says,
# for each schedule that empties the pipe; and schedules rank as they should.
# deadline: 300
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
model.layers: 12
model.heads: 2
model.width: 64
model.context: 32
model.vocab: 32
data: synthetic
batch: 16
accumulate: 8
threads: 1
optim.lr: 0.01
train.steps: 3
log.every: 1
mesh.pipe: 3
END

run() {
    name=$1
    shift
    rm -rf "$name"
    "$tutti" train gpt.yaml run="$name" -n 3 --json "$@" \
        trial.pace=$pace,$pace,$pace >"$name.json" 2>err ||
        fail "$name: $(cat err)"
}

# A machine that does other things makes ranks late: then everything is done again, more
# slowly.
for pace in 0.3 0.1 0.05; do
    run gpipe pipe.schedule=gpipe
    run 1f1b
    run interleaved pipe.chunks=2
    run zb-h1 pipe.schedule=zb-h1
    run zb-h2 pipe.schedule=zb-h2
    python3 - >said <<'END' && exit 0
import json, sys
wrong, step, pipes = [], {}, {}
for name in "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2":
    pipe = pipes[name] = json.load(open(name + ".json"))["pipe"]
    assert pipe["schedule"] == name and pipe["steps"] == 2
    # The whole step, from the first row of all to the last gradient.
    step[name] = max(row[4] for rank in pipe["ranks"] for row in rank["rows"]
                     if row[0] != "update")
    # The formulas of zero-bubble want weight gradients that are not longer than forward.
    assert "formula" in pipe or name[:2] == "zb", pipe["sentence"]
    for key in {"formula", "expected"} & set(pipe):
        if abs(pipe["bubble"] - pipe[key]) > 0.08:
            wrong.append(f"{name}: bubble {pipe['bubble']:.3f}, {key} {pipe[key]:.3f}")
    for rank in pipe["ranks"]:
        if abs(rank["bubble"] - rank["expected"]) > 0.08:
            wrong.append(f"{name}, rank {rank['rank']}: bubble {rank['bubble']:.3f}, "
                         f"expected {rank['expected']:.3f}")
# Zero-bubble with as many slots as the first stage of 1f1b, and interleaved with as many
# micro-batches, are faster.
slots = {n: max(rank["slots"] for rank in pipes[n]["ranks"]) for n in pipes}
assert slots["zb-h1"] == slots["1f1b"] == 3, slots
assert slots["gpipe"] == 8, slots
for better in "zb-h1", "zb-h2", "interleaved":
    if step[better] > 0.97 * step["1f1b"]:
        wrong.append(f"{better} takes {step[better]:.3f} s, 1f1b {step['1f1b']:.3f} s")
print("\n".join(wrong))
sys.exit(len(wrong) > 0)
END
done
fail "$(cat said)"
