# A trial with faults has the bits of the run without them: algorithms and buckets are
# chosen from the same links. Late messages change nothing.
# deadline: 120
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME="$folder/state" XDG_CACHE_HOME="$folder/cache"
cd "$folder" || exit 1

train() {
    "$tutti" train model=gpt model.layers=2 model.heads=2 model.width=64 \
        model.context=16 data=synthetic data.size=1000 data.classes=64 \
        batch=12 train.steps=5 optim.lr=0.01 threads=1 "$@" >out 2>&1 || {
        echo "$*: $(cat out)"
        exit 1
    }
}

for n in 3 4; do
    train run=clean$n -n $n
    train run=late$n -n $n comm.fault='delay:rank=1,seconds=0.002,every=7'
    for file in model optim; do
        cmp clean$n/checkpoints/step-00000005/$file.safetensors \
            late$n/checkpoints/step-00000005/$file.safetensors || {
            echo "$n ranks: $file has other bits with faults"
            exit 1
        }
    done
done
