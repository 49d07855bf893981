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
has '^transformer.h.0-1.attn.c_proj.weight  *2  64x64  *heads:tensor  *16-32x64  *4,096$'
# One rank has nobody to send to.
out=$("$TUTTI" plan examples/mlp-tiny.yaml --placements)
! echo "$out" | grep -q 'bytes per rank' || die "one rank sends: $out"
