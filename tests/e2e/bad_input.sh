# Whatever is wrong with a request: exit status 2, nothing on stdout, and one
# sentence on stderr that says what.
# deadline: 240
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
cd "$folder" || exit 1
failed=0

complain() {
    echo "tutti $1"
    echo "    $2"
    sed 's/^/    /' err | head -n 5
    failed=1
}

# refuses TEXT WORD... - one line on stderr that holds the text.
refuses() {
    text=$1
    shift
    timeout 60 "$tutti" "$@" >out 2>err
    status=$?
    if [ $status -ne 2 ]; then
        complain "$*" "exit status $status, not 2"
    elif [ -s out ]; then
        complain "$*" "something is on stdout"
    elif [ "$(wc -l <err)" -ne 1 ]; then
        complain "$*" "not one line on stderr"
    elif ! grep -qF -- "$text" err; then
        complain "$*" "should say: $text"
    fi
}

# Commands, words, flags.
refuses 'did you mean "plan"' plam
refuses 'lists them' xyzzy
refuses 'did you mean --json' plan --jsn
refuses 'unknown flag -x' list -x
refuses 'neither key=value nor' plan gpt
refuses 'neither key=value nor' plan one two
refuses 'neither key=value nor' list models ops
refuses 'neither key=value nor' bench step step
refuses 'not of the form key=value' plan =3
refuses 'step, gemm, op or allreduce' bench
refuses 'step, gemm, op and allreduce' bench stp
refuses 'did you mean models' list modls
refuses 'did you mean grad' check grd
refuses 'matches no operator' check cost only=xyzzy
refuses 'steps' list models steps=3

# Models, keys, types.
refuses 'did you mean gpt' plan model=gtp
refuses 'did you mean gpt2-124m' plan model=gpt2-123m
refuses 'unknown model ""' plan model=
refuses 'did you mean "model.layers"' plan model.layer=3
refuses 'did you mean "batch"' plan bach=2
refuses 'unknown setting' plan a.b.c=3
refuses 'unknown setting' plan model.layers.x=3
refuses 'did you mean adam' plan optim=adan
refuses 'did you mean "optim.beta1"' plan optim.beta3=1
refuses 'use cpu, cuda or ref' plan device=gpu
refuses 'fp32|bf16|fp16|fp64' plan precision=fp31
refuses 'not a whole number' plan model.layers=many
refuses 'not a whole number' plan batch=1.5
refuses 'not a whole number' plan batch=
refuses 'not a number' plan optim.lr=nan
refuses 'did you mean "steps"' bench step model=mlp stepz=3

# Impossible shapes.
refuses 'not a multiple of model.heads' plan model=gpt model.width=770
refuses 'not a multiple of model.kv_heads' plan model=llama model.kv_heads=5
refuses 'not a multiple of model.patch' plan model=vit-b16 image=225
refuses 'longer than model.context' plan model=gpt seq=2000
refuses 'not a multiple of accumulate' plan batch=4 accumulate=3
refuses 'the window spans' plan model=lenet image=3
refuses 'takes seq=N' plan model=gpt image=3
refuses 'takes image=N' plan model=mlp seq=3
refuses 'a VGG has depth' plan model=vgg model.depth=12
refuses 'a ResNet has depth' plan model=resnet model.depth=7

# Zero, negative and huge.
refuses 'out of range' plan batch=0
refuses 'out of range' plan batch=-1
refuses 'out of range' plan batch=99999999999
refuses 'not a whole number' plan batch=99999999999999999999999
refuses 'out of range' plan model.width=1e18
refuses 'out of range' plan model.heads=0
refuses 'out of range' plan seq=-1
refuses 'out of range' plan threads=-1
refuses 'out of range' plan optim.lr=-1
refuses 'out of range' bench step model=mlp steps=0
refuses 'out of range' bench gemm m=-1
refuses 'out of range' bench gemm m=1e9 n=1e9 k=1e9
refuses 'no machine holds' plan model=gpt batch=16777216 seq=1024
refuses 'no machine holds' plan model=resnet50 image=65536 batch=16777216
refuses 'no machine holds' plan model=mlp model.width=16777216 model.layers=1000
refuses 'no machine holds' \
    plan model=gpt model.layers=1000 model.width=1048576 model.heads=1

# Files.
printf 'batch: 1\nbatch: 2\n' >twice.yaml
printf 'model: [' >broken.yaml
printf 'modle: gpt\n' >key.yaml
printf 'model: gpt\nmodel.layers: many\n' >type.yaml
printf 'model: &a gpt\noptim: *a\n' >anchor.yaml
: >empty.yaml
head -c 300 "$tutti" >binary.yaml
mkdir folder.yaml
refuses 'No such file' plan missing.yaml
refuses 'No such file' bench step no/such/place.yaml
refuses 'Is a directory' plan folder.yaml
refuses 'Is a directory' plan ./
refuses 'binary.yaml' plan binary.yaml
refuses 'broken.yaml:' plan broken.yaml
refuses 'twice.yaml:2:1: batch is given twice' plan twice.yaml
refuses 'key.yaml:1:1: modle: unknown setting; did you mean "model"' \
    plan key.yaml
refuses 'type.yaml:2:1: model.layers: "many" is not a whole number' \
    plan type.yaml
refuses 'anchor.yaml:' plan anchor.yaml
refuses 'the file is empty' plan empty.yaml
printf 'model: mlp\n' >secret.yaml
chmod 000 secret.yaml
[ -r secret.yaml ] || refuses 'Permission denied' plan secret.yaml # not for root

# Results that cannot be written.
small='model=mlp model.width=8 image=4 batch=2 threads=1 steps=1 warmup=0'
# shellcheck disable=SC2086
refuses 'cannot write /dev/full' bench step $small trace=/dev/full
# shellcheck disable=SC2086
refuses 'cannot write no/such/file' bench step $small trace=no/such/file
if "$tutti" list models >/dev/full 2>err || ! grep -q 'disk full' err; then
    complain 'list models >/dev/full' 'should say that the disk is full'
fi
exit $failed
