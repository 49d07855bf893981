# Meshes and layouts that cannot be are refused before anything starts, in one
# sentence that names what would do.
# deadline: 60
set -u

refused() {
    want=$1
    shift
    out=$("$TUTTI" plan "$@" 2>&1)
    status=$?
    if [ "$status" -ne 2 ] || ! echo "$out" | grep -q "$want" ||
        [ "$(echo "$out" | wc -l)" -ne 1 ]; then
        echo "plan $*: exit status $status, wanted \"$want\": $out"
        exit 1
    fi
}

gpt=examples/gpt-tiny.yaml
refused 'more than gpt has of heads, which is 4; mesh.tensor=4 would do' \
    $gpt mesh.tensor=8
refused 'no dimension called haeds; did you mean heads?' \
    $gpt mesh.tensor=2 layout.rules=haeds:tensor
refused 'no dimension called height; it has batch seq' \
    $gpt mesh.tensor=2 layout.height=tensor
refused 'mesh.expert=2: gpt has no dimension that the layout gives to expert' \
    $gpt mesh.expert=2
refused 'unknown setting; did you mean "mesh.tensor"?' $gpt mesh.tensr=2
refused 'unknown setting; did you mean "layout.heads"?' $gpt layout.haeds=tensor
refused 'the mesh has no ranks along context; set mesh.context' \
    $gpt layout.seq=context
refused 'a batch of 8 cannot be divided between 9 ranks; batch=9 or -n 8' \
    $gpt mesh.data=9
refused 'mesh.space=64 is more than resnet18 has of height, which is 32' \
    examples/resnet-tiny.yaml mesh.space=64
"$TUTTI" plan $gpt mesh.tensor=8 layout.heads=none >/dev/null || exit 1
