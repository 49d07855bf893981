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
refuses 'No such file' plan gpt
refuses 'neither key=value nor' plan one two
refuses 'no name matches "xyzzy"' list models xyzzy
refuses 'exchange.policy=allreduce has no such option; these have it: average' \
    plan model=mlp data=synthetic exchange.every=3
refuses 'exchange.outer.policy=none has no such option; these have it: average, elastic' \
    plan model=mlp data=synthetic exchange.outer.every=3
refuses 'exchange.codec=topk has no such option; these have it: powersgd' \
    plan model=mlp data=synthetic exchange.codec=topk exchange.codec.rank=3
refuses 'neither key=value nor' list models gpt ops
refuses 'neither key=value nor' bench step step
refuses 'not of the form key=value' plan =3
refuses 'step, gemm, op, allreduce or codec' bench
refuses 'step, gemm, op, allreduce and codec' bench stp
refuses 'did you mean models' list modls
refuses 'did you mean grad' check grd
refuses 'matches no operator' check cost only=xyzzy
refuses 'steps' list models steps=3

# A text where a model should be.
echo 'To be, or not to be.' >my.txt
for command in sample 'export out=x' 'import out=x' inspect; do
    # shellcheck disable=SC2086 # words are an argument each
    refuses 'my.txt: this is text, not a model; give' $command my.txt
done
refuses 'this is text, not a model' train model=gpt data=text data.path=my.txt \
    data.holdout=0 seq=4 batch=1 train.steps=1 init.from=my.txt
refuses 'my.txt is a file; eval takes the folder' eval my.txt

# What is no model, and no data: one sentence, at once.
printf '%%PDF-1.4\n\0' >a.pdf
: >hollow.bin
head -c 4000 "$tutti" >program
mkfifo pipe
mkdir plain pictures mine
printf '\377\330\377\340\0\0' >pictures/a.jpg
python3 - <<'PYTHON'
import socket, zipfile
socket.socket(socket.AF_UNIX).bind("plug")
zipfile.ZipFile("a.zip", "w").writestr("notes.txt", "hello")
PYTHON
for command in sample eval 'export out=x' 'import out=x' inspect; do
    # shellcheck disable=SC2086 # words are an argument each
    {
        refuses 'a.pdf: its format is PDF, which is no model; give' $command a.pdf
        refuses 'program: its format is ELF, which is no model' $command program
        refuses 'hollow.bin is empty, so there is no model in it' \
            $command hollow.bin
        refuses 'pipe is a pipe, which holds no model' $command pipe
        refuses 'plug is a socket, which holds no model' $command plug
        refuses '/dev/null is a device, which holds no model' $command /dev/null
        refuses 'plain is a folder without a model: it has no' $command plain
    }
done
for command in sample 'export out=x' 'import out=x' inspect; do
    # shellcheck disable=SC2086
    refuses 'without data.pkl, so not one of torch.save; unpack it' \
        $command a.zip
done
refuses 'unpack it first: pdftotext' train a.pdf
refuses 'unpack it first: unzip' train a.zip
refuses 'it is a program and no data' train program
refuses 'pipe: is a pipe, and data are files' train pipe
refuses 'plug: is a socket, and data are files' train plug
refuses 'make one for each class, as pictures/cats' train pictures
refuses '/ is the root of all files; name the folder' train /
printf 'To be, or not to be. %.0s' $(seq 60) >mine/own.txt
"$tutti" train mine/own.txt train.steps=2 threads=1 >out 2>err ||
    complain 'train mine/own.txt' 'fails'
"$tutti" export runs/own out=model >out 2>err || complain 'export' 'fails'
refuses 'the command that began it goes on with it' train runs/own
refuses '`tutti train mine/own.txt train.steps=2 threads=1`' train runs/own
refuses 'tutti train mine/own.txt' plan runs/own
refuses 'runs is a folder with runs in it, not data' train runs
refuses 'holds checkpoints, not data' train runs/own/checkpoints
refuses 'is a checkpoint, not data; the command' \
    train runs/own/checkpoints/step-00000002
refuses 'model is a model, not data; init.from=model data=text' train model
refuses 'is a file of weights, not data; init.from=' train model/model.safetensors
for command in sample eval 'export out=x' inspect; do
    # shellcheck disable=SC2086
    refuses '. is a folder with runs in it and no model itself; name one' \
        $command .
done

# A file of weights is evaluated as its folder is.
data='data=text data.path=mine/own.txt threads=1'
# shellcheck disable=SC2086
"$tutti" eval model $data >want 2>err || complain 'eval model' 'fails'
# shellcheck disable=SC2086
"$tutti" eval model/model.safetensors $data >have 2>err ||
    complain 'eval model/model.safetensors' 'fails'
[ "$(sed 1d want)" = "$(sed 1d have)" ] && [ -s have ] ||
    complain 'eval model/model.safetensors' 'another loss than its folder'
"$tutti" eval runs/own/checkpoints/step-00000002/model.safetensors >have 2>err ||
    complain 'eval of a checkpoint'"'"'s file' 'fails'
grep -q 'step 2' have || complain 'eval of a checkpoint'"'"'s file' 'no step'
rm -rf my.txt mine model runs pictures

# Settings where a model should be.
echo 'model: mlp' >some.yaml
for command in sample eval 'export out=x' 'import out=x' report; do
    # shellcheck disable=SC2086
    refuses 'some.yaml is a file of settings, not a model; `tutti train some' \
        $command some.yaml
done
refuses '`tutti runs` lists' report plain

# Help, flags, numbers of ranks, devices.
refuses 'did you mean "optim.lr"' help lrr
refuses 'did you mean "optim.lr"' help learning_rate
refuses 'did you mean "train"' help tarin
refuses 'did you mean "model.layers"' help model.layer
refuses 'is no command and no setting; `tutti help` lists' help zzzzzz
refuses 'did you mean "help"' helpp
refuses 'did you mean "help"' --hlep
refuses 'did you mean --dry-run' train model=mlp --dryrun
echo 'To be, or not to be.' >my.txt
refuses '-n wants a value: -n N' train my.txt -n --dry-run
refuses '-n wants a value: -n N' train my.txt -n
for n in 0 x -1 1.5 '' 1e3 300; do
    refuses "-n $n: the number of ranks is a whole number from 1 to 256" \
        train my.txt -n "$n"
done
refuses 'from 1 to 65536' plan my.txt -n x
refuses 'from 1 to 256' verify model=mlp -n x
if [ ! -e "$(dirname "$tutti")/libtutti-cuda.so" ]; then
    refuses 'needs the plug-in libtutti-cuda.so, which is not here; `make cuda`' \
        bench step model=mlp device=cuda
fi
rm -f my.txt

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
refuses 'did you mean device=cuda' plan device=gpu
refuses 'use cpu, cuda or ref' plan device=xyzzy
refuses 'fp32|bf16|fp16|fp64' plan precision=fp31
refuses 'not a whole number' plan model.layers=many
refuses 'not a whole number' plan batch=1.5
refuses 'not a whole number' plan batch=
refuses 'not a number' plan optim.lr=nan
refuses 'did you mean "steps"' bench step model=mlp stepz=3

# What people mean who come from other programs.
meant() {
    refuses "did you mean \"$2\"" plan "$1"
}
meant tp=2 mesh.tensor
meant dp=2 mesh.data
meant pp=2 mesh.pipe
meant cp=2 mesh.context
meant ep=2 mesh.expert
meant sequence_parallel=true layout.seq=tensor
meant fsdp=true zero=3
meant ulysses=2 'mesh.context=N layout.attention=all_to_all'
meant lr=0.1 optim.lr
meant learning_rate=0.1 optim.lr
meant train.learning_rate=0.1 optim.lr
meant batch_size=8 batch
meant Batch-Size=8 batch
meant epochs=3 train.epochs
meant max_steps=3 train.steps
meant gradient_accumulation_steps=2 accumulate
meant weight_decay=0.1 optim.weight_decay
meant optimizer=adam optim
meant n_layer=3 model.layers
meant dtype=bf16 precision
refuses 'did you mean -n N on the command line' plan world_size=4
refuses 'did you mean adamw' plan optim=adamW
refuses 'did you mean precision=bf16' plan precision=bfloat16
refuses 'did you mean recompute=full' plan recompute=true
refuses 'without dashes: optim.lr=VALUE' plan --lr 0.1
refuses 'without dashes: batch=VALUE' plan --batch-size=8
refuses 'without dashes: optim.warmup=VALUE' plan --optim.warmup=8
refuses 'did you mean -n N' train --nproc_per_node=2

# One rank is not compared with itself.
refuses 'say how many, as with -n 2' verify model=mlp
refuses '-n 6 starts those of the mesh' verify model=gpt mesh.tensor=2 mesh.data=3
refuses 'say how many' verify model=mlp -n 1

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
refuses 'optim.lr=-1: must be at least 0' plan optim.lr=-1
for key in beta1 beta2; do
    refuses "optim.$key=1: must be less than 1" plan optim.$key=1
done
refuses 'optim.momentum=1: must be less than 1' plan optim=momentum optim.momentum=1
refuses 'optim.alpha=1: must be less than 1' plan optim=rmsprop optim.alpha=1
for key in weight_decay eps lr clip; do
    refuses "optim.$key=inf: must be at most" plan optim.$key=inf
done
refuses 'must be at least' plan batch=0
refuses 'must be at least' plan batch=-1
refuses 'must be at most' plan batch=99999999999
refuses 'batch=99999999999999999999999: must be at most 16777216' plan batch=99999999999999999999999
refuses 'must be at most' plan model.width=1e18
refuses 'must be at least' plan model.heads=0
refuses 'must be at least' plan seq=-1
refuses 'must be at least' plan threads=-1
refuses 'must be at least' plan optim.lr=-1
refuses 'must be at least' bench step model=mlp steps=0
refuses 'must be at least' bench gemm m=-1
refuses 'must be at most' bench gemm m=1e9 n=1e9 k=1e9
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
refuses 'is a folder, and a file is wanted' plan folder.yaml
refuses 'is a folder' plan ./
refuses 'binary.yaml' plan binary.yaml
refuses 'broken.yaml:' plan broken.yaml
refuses 'twice.yaml:2:1: batch is given twice' plan twice.yaml
refuses 'key.yaml:1:1: modle: unknown setting; did you mean "model"' \
    plan key.yaml
refuses 'type.yaml:2:1: model.layers: "many" is not a whole number' \
    plan type.yaml
refuses 'anchor.yaml:' plan anchor.yaml
refuses 'the file is empty; settings are written as "model: gpt"' plan empty.yaml

# What people type: what it is, where, and what to do.
typed() { # TEXT-OF-FILE MESSAGE
    printf "$1" >typed.yaml # shellcheck disable=SC2059
    refuses "$2" plan typed.yaml
}
typed '# nothing\n' 'has no settings; they are written as'
typed 'optim:\n\tlr: 0.1\n' 'typed.yaml:2:1: a tab, or a character'
typed 'optim:\n  lr: 0.1\n warmup: 3\n' 'typed.yaml:3:2: indented unlike the lines'
typed 'model: "gpt\nbatch: 2\n' 'typed.yaml:1:8: a quotation mark begins here'
typed 'model: gpt: 3\n' 'typed.yaml:1:11: a second colon'
typed 'batch: [1\nseq: 2\n' 'a bracket that is not closed'
typed 'model:gpt\n' 'with a blank after the colon'
typed 'model=gpt\n' 'expected settings of the form "key: value"'
typed 'optim.lr: 0,001\n' 'typed.yaml:1:1: optim.lr: "0,001" is not a number; did you mean 0.001'
typed 'model: gpt\nmodel.dropout: 10%%\n' 'did you mean 0.1?'
typed 'train.steps: 1_000\n' '"1_000" is not a whole number; did you mean 1000?'
typed 'train.steps: 1,000\n' 'did you mean 1000?'
typed 'optim.lr: 1e400\n' 'typed.yaml:1:1: optim.lr=1e400: must be at most'
typed 'optim:\n  lr: 1\noptim.lr: 2\n' 'optim.lr is given twice; the first is at'
typed 'model:\n  gpt:\n    layers: 3\n' 'did you mean "model.layers"'
typed 'model: gpt\nbatch:\n' 'typed.yaml:2:1: batch has no value'
printf 'model: mlp\n' >secret.yaml
chmod 000 secret.yaml
[ -r secret.yaml ] || refuses 'Permission denied' plan secret.yaml # not for root

# Words that name no data.
: >nothing.txt
printf '\0\1\2\3\377' >noise
mkdir hollow
refuses 'settings are in a .yaml file' train nix
refuses 'did you mean type.yaml' train type
refuses 'is empty' train nothing.txt
refuses 'no data to train on' train noise
refuses 'no data to train on are seen in it' train hollow
refuses 'neither key=value nor' train nothing.txt noise

# Every refusal of a setting says where it stands, also where what is checked is known
# only later: on the command line, or the line of a file.
printf 'model: gpt\nmodel.layers: 1\nmodel.heads: 2\nmodel.width: 8\nmodel.context: 8\ndata: synthetic\ndata.size: 1000\ndata.classes: 16\nbatch: 4\ntrain.steps: 1\n' >g.yaml
for setting in device=cpuu device=cuda:x collective=rng comm.fault=foo layout.rules=foo \
    mesh.order=foo optim.lr_groups=foo 'train.freeze=[' init.from=nowhere \
    transport=self recompute=x optim.lr=x; do
    key=${setting%%=*}
    refuses "tutti: command line: $key" train g.yaml "$setting" -n 2 run=place
    (cat g.yaml && echo "$key: \"${setting#*=}\"") >place.yaml
    refuses "tutti: place.yaml:11:1: $key" train place.yaml -n 2 run=place
done

# Numbers that a double cannot hold do not become 0.
refuses 'optim.lr=1e-400: too near to 0' train g.yaml optim.lr=1e-400
refuses 'optim.weight_decay=1e-320: too near to 0' train g.yaml optim.weight_decay=1e-320
refuses 'optim.lr=1e400: must be at most' train g.yaml optim.lr=1e400
refuses '"1e-400" is not a whole number' train g.yaml train.steps=1e-400
refuses 'the factor is too near to 0' train g.yaml 'optim.lr_groups=*:1e-400'
refuses 'the factor is too large' train g.yaml 'optim.lr_groups=*:1e400'

# Folders that were not made for a run.
mkdir -p above/here home/things
ln -s / root
for run in / ../../root . .. ../../above; do
    (
        cd above/here || exit 1
        refuses 'this is the folder you are in' train ../../g.yaml "run=$run" --dry-run
        exit $failed
    ) || failed=1
done
refuses 'has others in it, as home/things' train g.yaml run=home
refuses 'has others in it, as home/things' train g.yaml run=home --dry-run
refuses 'as /dev/' train g.yaml run=/dev --dry-run
refuses '/dev/null is a file and no folder' train g.yaml run=/dev/null
refuses 'g.yaml is a file and no folder' train g.yaml run=g.yaml
(cd home/things && refuses 'this is the folder you are in' train ../../g.yaml run=. ; exit $failed) || failed=1
[ -z "$(find home -type f ! -name out ! -name err)" ] || complain 'run=.' 'writes something'

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
