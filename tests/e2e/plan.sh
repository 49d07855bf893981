# tutti plan of several ranks: what is where, what is sent, and how much memory each
# needs, for people and as JSON.
# deadline: 60
set -eu

die() {
    echo "$1"
    exit 1
}

has() {
    echo "$out" | grep -q -- "$1" || die "no \"$1\": $out"
}

gpt="examples/gpt-tiny.yaml mesh.tensor=2 mesh.data=2 layout.vocab=none"
out=$("$TUTTI" plan $gpt)
has '^rank 0 of 4: mesh data:2 tensor:2, zero=0'
has '^transformer.h.0-1.mlp.c_fc.weight  *2  64x256  *ff:tensor  *64x128  *32,768$'
has '^transformer.wte.weight  *1  64x64  *whole  *64x64  *16,384$'
# Two all-reduces a layer and direction, of 4 samples, 32 tokens, 64 numbers.
has '^transformer.h.0-1  *2  forward  *all_reduce  tensor  *2  *65,536  *65,536$'
has '^transformer.h.0-1  *2  backward  *all_reduce  tensor  *2  *65,536  *65,536$'
has '^  memory  *[0-9,]* on every rank$'
! echo "$out" | grep -q activation.*operator || die "activations unasked: $out"

# A model of a preset is all of it, on made-up data too.
out=$("$TUTTI" plan examples/gpt2-124m.yaml)
has '^gpt2-124m: 124,439,808 parameters'
out=$("$TUTTI" plan examples/resnet50.yaml)
has '^resnet50: 25,557,032 parameters'
# Advice that can be followed: with -n, in terms of -n.
few="examples/gpt-tiny.yaml layout.heads=data batch=16"
out=$("$TUTTI" plan $few -n 8 2>&1) && die "4 heads on 8 ranks: $out"
has 'mesh.data=8 is more than gpt has of heads, which is 4; -n 4 would do'
"$TUTTI" plan $few -n 4 >/dev/null || die "-n 4 does not do"
out=$("$TUTTI" plan $few -n 8 mesh.data=8 2>&1) && die "4 heads on 8 ranks: $out"
has '; mesh.data=4 with -n 4 would do'
out=$("$TUTTI" plan $few mesh.data=8 2>&1) && die "4 heads on 8 ranks: $out"
has '; mesh.data=4 would do'
# Under a launcher the first rank plans and prints for all.
for rank in 0 1; do
    out=$(RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 \
        MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "$TUTTI" plan examples/gpt-tiny.yaml 2>&1)
    [ $rank -eq 1 ] || has '^rank 0 of 2: mesh data:2'
    [ $rank -eq 0 ] || [ -z "$out" ] || die "rank 1 speaks: $out"
done

# Where ranks differ, the one that needs the most is planned, named and asked for room.
uneven="model=gpt model.layers=1 model.width=48 model.heads=3 seq=16 batch=7 -n 3"
out=$("$TUTTI" plan $uneven)
has '^fits: rank 2 needs .*, the most of 3 ranks, and '
has '^rank 2 of 3, which needs the most memory: mesh data:3'
most=$(echo "$out" | sed -n 's/^  peak  *\([0-9,]*\) .*/\1/p')
has "^  memory  *[0-9,]* on rank 0 to $most on rank 2\$"
out=$("$TUTTI" plan $uneven --rank 0)
has '^rank 0 of 3: mesh data:3'
least=$(echo "$out" | sed -n 's/^  peak  *\([0-9,]*\) .*/\1/p')
has "^  memory  *$least on rank 0 to $most on rank 2\$"
out=$("$TUTTI" plan $uneven --memory "${least//,/}" 2>&1) && die "rank 2 fits: $out"
out=$("$TUTTI" train $uneven data=synthetic data.classes=50257 train.steps=1 --dry-run)
has '^# of 3 ranks, rank 2, which needs the most:$'
out=$("$TUTTI" plan $uneven batch=6)
has '^fits: a rank needs '
has '^rank 0 of 3: mesh data:3'

out=$("$TUTTI" plan $gpt --placements)
has '^transformer.h.0-1  *4  layer_norm  *8x32x64  *batch:data  *4x32x64  *32,768$'
has '^transformer.h.0-1  *2  attention  *8x32x4x16  *batch:data heads:tensor '

out=$("$TUTTI" plan $gpt --json)
for key in mesh layout axes sent rank_memory_bytes rank_sent_bytes collectives \
    placements formula_bytes; do
    has "\"$key\": "
done
has '"name": "transformer.h.1.mlp.c_fc.weight", "layer": "", "kind": "weight", '\
'"dtype": "f32", "shape": "embed:64 ff:256", "split": "ff:tensor", '\
'"local": "embed:64 ff:128", "least": "embed:64 ff:128", "most": "embed:64 ff:128", "bytes": 32768, "view": false'
has '"layer": "transformer.h.1", "direction": "forward", "kind": "all_reduce", '\
'"axis": "tensor", "count": 2, "messages": 4, "bytes": 65536, '\
'"formula_bytes": 65536'
if command -v python3 >/dev/null; then
    echo "$out" | python3 -c 'import json, sys; json.load(sys.stdin)' ||
        die "not JSON: $out"
fi

# Parts that are not equal: the smallest and the largest rank.
out=$("$TUTTI" plan examples/resnet-tiny.yaml mesh.space=3)
has '^  memory  *[0-9,]* on rank [0-9] to [0-9,]* on rank [0-9]$'
out=$("$TUTTI" plan examples/gpt-tiny.yaml mesh.tensor=3)
has '^transformer.h.0-1.attn.c_proj.weight  *2  64x64  *heads:tensor  *16-32x64  *8,192$'
# One rank has nobody to send to.
out=$("$TUTTI" plan examples/mlp-tiny.yaml --placements)
! echo "$out" | grep -q 'bytes per rank' || die "one rank sends: $out"

# The verdict stands first; numbers have separators and units; words are explained.
out=$("$TUTTI" plan examples/gpt-tiny.yaml)
echo "$out" | head -n 1 | grep -q '^fits: it needs [0-9.]* MB, and .*B are there$' ||
    die "no verdict first: $out"
has '^gpt: 106,240 parameters'
has '^  activations  *[0-9,]*,[0-9]*  [0-9.]* MB '
has '^  gaps .*between buffers'
has '^  work .*scalar operations'
has '^  depth .*longest chain'
! echo "$out" | grep -q '[KMG]iB\|e+0' || die "other units: $out"

# -n is the number of ranks, with what the other axes leave to data.
out=$("$TUTTI" plan examples/gpt-tiny.yaml -n 4)
has '^rank 0 of 4: mesh data:4, zero=0'
has 'are there for each of 4$'
out=$("$TUTTI" plan examples/gpt-tiny.yaml -n 4 mesh.tensor=2)
has '^rank 0 of 4: mesh data:2 tensor:2'
out=$("$TUTTI" train examples/gpt-tiny.yaml --dry-run -n 4 mesh.tensor=2)
has '^mesh.data: 2'
out=$("$TUTTI" plan examples/gpt-tiny.yaml -n 3 mesh.tensor=2 2>&1) &&
    die "3 ranks of 2: $out"
has 'mesh of 2 ranks besides data does not fit 3'

# Weights and what is sent have sums; those of weights are the memory of parameters.
out=$("$TUTTI" plan examples/gpt-tiny.yaml -n 2)
has '^in all  *28  *424,960$'
has '^  parameters  *424,960 '
has '^all  *2  *[0-9]'

# ZeRO and recomputation, memory and bytes side by side: less memory downwards.
out=$("$TUTTI" plan examples/gpt-tiny.yaml -n 4 zero=1)
has '^zero  recompute=none  *sent  selective  *sent  *full  *sent$'
has '^1  *[0-9.]* MB \*  [0-9.]* kB '
json=$("$TUTTI" plan examples/gpt-tiny.yaml -n 4 --json)
if command -v python3 >/dev/null; then
    echo "$json" | python3 -c '
import json, sys
plan = json.load(sys.stdin)
at = {(t["zero"], t["recompute"]): t for t in plan["trades"]}
assert len(at) == 12, at
for zero in range(1, 4):
    for mode in "none", "selective", "full":
        assert at[zero, mode]["memory_bytes"] < at[zero - 1, mode]["memory_bytes"], (zero, mode)
for zero in range(4):
    assert at[zero, "full"]["memory_bytes"] < at[zero, "none"]["memory_bytes"], zero
assert at[3, "none"]["sent_bytes"] > at[0, "none"]["sent_bytes"]
assert at[0, "none"]["memory_bytes"] == plan["peak_bytes"]
assert at[0, "none"]["sent_bytes"] == plan["sent"]["bytes"]
assert plan["fits"] is True' || die "the table of trades: $json"
fi

# A machine that is not here: its memory, and a GPU where there is none.
"$TUTTI" plan examples/gpt-tiny.yaml --memory 80GB >/dev/null
out=$("$TUTTI" plan examples/gpt-tiny.yaml --memory 80GB)
has '^fits: .*and 80.0 GB are there$'
for size in 1MB 1000kB 0.001GB 1000000 976.5625KiB; do
    out=$("$TUTTI" plan examples/gpt-tiny.yaml --memory $size 2>&1) &&
        die "4 MB fit into 1: $out"
    has 'needs 4[.0-9]* MB of memory, but 1.00 MB are available'
done
out=$("$TUTTI" plan examples/gpt-tiny.yaml --memory many 2>&1) && die "many: $out"
has '80GB, 512MiB'
if "$TUTTI" doctor 2>/dev/null | grep -q 'GPU  *none'; then
    gpu='plan model=gpt2-124m batch=32 device=cuda precision=bf16'
    out=$("$TUTTI" $gpu)
    has 'no GPU is here to say whether that fits'
    out=$("$TUTTI" $gpu --memory 80GB)
    has '^fits: it needs 1[0-9.]* GB, and 80.0 GB are there'
    has '^planned for a GPU that is not here: scratch memory is estimated'
    has '^  optimiser state  *995,518,464 '
    out=$("$TUTTI" $gpu --memory 8GB 2>&1) && die "15 GB fit into 8: $out"
    has 'what would fit:'
    has 'more ranks: .* with zero=3 .*; offload='
    out=$("$TUTTI" $gpu -n 8 zero=3 offload=all recompute=full --memory 80GB)
    has '^rank [0-7] of 8.*: mesh data:8, zero=3'
    out=$("$TUTTI" train model=gpt2-124m device=cuda data=synthetic train.steps=1 2>&1) &&
        die "trained on a GPU that is not here: $out"
    has 'device=cuda needs\|no GPU'
fi
