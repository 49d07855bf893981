# Meshes and layouts that cannot be are refused before anything starts, in one
# sentence that names what would do.
# deadline: 120
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# refused COMMAND WANT SETTINGS... - exit status 2 and one line with that text.
refused() {
    command=$1
    want=$2
    shift 2
    out=$("$TUTTI" "$command" "$@" 2>&1)
    status=$?
    if [ "$status" -ne 2 ] || ! echo "$out" | grep -qF -- "$want" ||
        [ "$(echo "$out" | wc -l)" -ne 1 ]; then
        echo "$command $*: exit status $status, wanted \"$want\": $out"
        exit 1
    fi
}

accepted() {
    "$TUTTI" plan "$@" >/dev/null || exit 1
}

gpt=examples/gpt-tiny.yaml
moe=examples/moe-tiny.yaml
vgg=examples/vgg-tiny.yaml

# More ranks than there are heads, experts, tokens, rows, units, samples.
refused plan 'more than gpt has of heads, which is 4; mesh.tensor=4 would do, or layout.heads=none' \
    $gpt mesh.tensor=6
refused verify 'mesh.tensor=3 would do' $gpt mesh.tensor=6 -n 6
accepted $gpt mesh.tensor=8 layout.heads=none
accepted $gpt mesh.tensor=3
refused plan 'more than gpt has of experts, which is 4; mesh.expert=4 would do' \
    $moe mesh.expert=8
refused plan 'mesh.context=8 is more than the 4 of gpt; mesh.context=4 would do, or layout.attention=ring' \
    $gpt mesh.context=8 layout.attention=all_to_all
refused plan 'mesh.context=4 is more than the 2 of gpt; mesh.context=2 would do' \
    $gpt mesh.context=4 mesh.tensor=2 layout.attention=all_to_all
refused plan 'more than gpt has of seq, which is 32; mesh.context=32 would do' \
    $gpt mesh.context=64
refused plan 'mesh.space=64 is more than resnet18 has of height, which is 32; mesh.space=32' \
    examples/resnet-tiny.yaml mesh.space=64
refused plan 'of ff, which is 32; mesh.data=32 would do, or layout.classifier.ff=none' \
    $vgg mesh.data=64 batch=64 layout.classifier.ff=data
refused plan 'a batch of 8 cannot be divided between 9 ranks; batch=9 or mesh.data=8 would do' \
    $gpt mesh.data=9
refused verify 'a batch of 1 cannot be divided between 2 ranks; batch=2 or -n 2 would do' \
    $gpt mesh.tensor=2 batch=1 -n 4
refused verify 'a batch of 1 cannot be divided between 2 ranks; batch=2 would do' \
    $moe batch=1 mesh.expert=2 -n 2
refused verify 'a micro-batch of 1 cannot be divided between 2 ranks; accumulate=4 or -n 1' \
    $gpt accumulate=8 -n 2

# Names that are none.
refused plan 'layout: gpt has no dimension called haeds; did you mean heads?' \
    $gpt mesh.tensor=2 layout.rules=haeds:tensor
refused plan 'has no dimension called height; it has batch seq' \
    $gpt mesh.tensor=2 layout.height=tensor
refused plan "gpt's h.0 has no dimension called hedas; did you mean heads?" \
    $gpt mesh.tensor=2 layout.h.0.hedas=none
refused plan "vgg11-bn's classifier has no dimension called filters; it has ff in classes" \
    $vgg mesh.tensor=2 layout.classifier.filters=tensor
refused plan 'unknown setting; did you mean "mesh.tensor"?' $gpt mesh.tensr=2
refused plan 'unknown setting; did you mean "layout.heads"?' $gpt layout.haeds=tensor
refused plan '"tensr" is not one of auto|none|data|expert|space|context|tensor; did you mean tensor?' \
    $gpt mesh.tensor=2 layout.heads=tensr
refused plan 'layout.h.0.heads: there is no axis "tensr"; did you mean tensor?' \
    $gpt mesh.tensor=2 layout.h.0.heads=tensr
refused plan 'layout.rules: there is no axis "contxt"; did you mean context?' \
    $gpt layout.rules=seq:contxt
refused plan 'mesh.order: there is no axis "dat"; did you mean data?' \
    $gpt mesh.order=tensor,dat
refused plan 'gpt has no layer that h.9 matches; did you mean h.0?' \
    $gpt mesh.tensor=2 layout.h.9.heads=none
refused plan 'gpt has no layer that zzz* matches; it has transformer and others' \
    $gpt mesh.tensor=2 'layout.zzz*.heads=none'

# Meshes and ranks.
refused verify 'a mesh of 3 ranks besides data does not fit 4 ranks; mesh.tensor=2 or 6 ranks would do' \
    $gpt mesh.tensor=3 -n 4
refused verify 'the mesh has 3 ranks and there are 4; start 3 (-n 3) or set mesh.data=4' \
    $gpt mesh.data=3 -n 4
refused train 'the mesh has 8 ranks and there are 4; start 8 (-n 8) or set mesh.data=1' \
    $gpt mesh.data=2 mesh.tensor=4 -n 4
refused verify 'the mesh has 6 ranks and there are 4; start 6 (-n 6)' \
    $gpt mesh.data=2 mesh.tensor=3 -n 4
refused plan 'layout.rules: pipe cuts the chain of layers, not a dimension; mesh.pipe=2 does it, and pipe.cut says where' \
    $gpt layout.rules=heads:pipe
refused plan 'there is no axis "pip"; did you mean pipe? They are data expert space context tensor pipe' \
    $gpt mesh.order=pip,data
refused plan 'pipe.schedule=1f1c: there is no such schedule; did you mean 1f1b?' \
    $gpt mesh.pipe=2 pipe.schedule=1f1c
refused plan 'pipe.schedule=2bw: transformer.wte.weight is read by stages 0 and 1, which update their weights at different times; model.tied=false would do' \
    $gpt mesh.pipe=2 pipe.schedule=2bw
refused plan 'pipe.cut: "h.9" is not the name of a layer' $gpt mesh.pipe=2 pipe.cut=h.9
refused plan 'pipe.cut names 2 layers, which makes 3 chunks; mesh.pipe x pipe.chunks is 2' \
    $gpt mesh.pipe=2 pipe.cut=h.0,h.1
refused plan 'pipe.cut: "h.1" is not the name of a layer after the one before it' \
    $gpt mesh.pipe=3 pipe.cut=h.1,h.1
accepted $gpt mesh.pipe=3 pipe.cut=h.1,ln_f
accepted $gpt mesh.pipe=2 pipe.cut=transformer.h.0.mlp
# Labels in another order cross all layers of an LSTM; it has as many places all the same.
accepted examples/lstm-tiny.yaml model.layers=9 mesh.pipe=8
# Two chunks of a rank follow each other without a transfer, since those between have no
# layers; what is computed again for the later one is there in its backward pass.
accepted examples/lenet-tiny.yaml mesh.pipe=3 pipe.chunks=3 recompute=selective batch=3
accepted $gpt mesh.pipe=2 pipe.schedule=gpipe
printf '%s\n' 'schedule hand' 'ranks 2' 'chunks 2' 'micro 2' fill 'rank 0' 'F0.1 F0.0 B0.1 B0.0 U0.1' \
    'rank 1' 'F1.1 B1.1 F1.0 B1.0 U1.1' >"$folder/back"
accepted $gpt mesh.pipe=2 accumulate=2 "pipe.schedule=$folder/back"
refused plan 'row 1 of rank 0 is forward of chunk 0 and micro-batch 0, after that of 1; exact=true needs them in their order' \
    $gpt mesh.pipe=2 accumulate=2 "pipe.schedule=$folder/back" exact=true
printf '%s\n' 'schedule hand' 'ranks 2' 'chunks 4' 'micro 1' fill \
    'rank 0' 'F0.0 F2.0 I2.0 W2.0 I0.0 W0.0 U0.0 U2.0' \
    'rank 1' 'F1.0 F3.0 I3.0 W3.0 I1.0 W1.0 U1.0 U3.0' >"$folder/apart"
refused plan 'micro-batch 0 comes to backward.0 after weight_grad.2' \
    $gpt mesh.pipe=2 pipe.chunks=2 accumulate=1 "pipe.schedule=$folder/apart"
refused verify 'sums of 16 bits are taken in pairs, and a rank has 3 replicas' \
    $gpt exchange.codec=fp16 exchange.replicas=6 batch=12 -n 2
accepted $gpt mesh.pipe=1 mesh.order=pipe,data,tensor
refused train 'a mesh of 2 ranks besides data does not fit 1 rank; mesh.tensor=1 or 2 ranks' \
    $gpt mesh.tensor=2
refused plan 'mesh.order names tensor twice' $gpt mesh.order=tensor,tensor
refused plan 'a mesh has at most 65536 ranks, and this one would have 90000' \
    $gpt mesh.data=300 mesh.tensor=300
refused plan 'mesh.tensor=-1: must be at least 0' $gpt mesh.tensor=-1

# Rules that are at odds with the mesh, the model or each other.
refused plan 'layout.seq=context, but the mesh has no ranks along context; set mesh.context' \
    $gpt layout.seq=context
refused plan 'layout.h.0.heads=context, but the mesh has no ranks along context' \
    $gpt layout.h.0.heads=context
refused plan 'mesh.expert=2: gpt has no dimension that the layout gives to expert; leave the axis out, or set layout.ff=expert' \
    $gpt mesh.expert=2
refused verify 'gives to data; leave the axis out, or set layout.batch=data' \
    $gpt layout.batch=none -n 2
refused plan 'layout: h.0/heads:none and h.0/heads:tensor contradict each other' \
    $gpt mesh.tensor=2 'layout.rules=h.0/heads:none h.0/heads:tensor'
refused plan 'layout.heads=none and layout.rules=heads:tensor contradict each other' \
    $gpt mesh.tensor=2 layout.heads=none layout.rules=heads:tensor
refused plan 'layout.rules: heads:none is for some layers, like h.0/heads:none; layout.heads=none is for all' \
    $gpt mesh.tensor=2 layout.rules=heads:none
refused plan 'layout.rules: "heads" is not like heads:tensor or h.3.*/heads:none' \
    $gpt mesh.tensor=2 layout.rules=heads
