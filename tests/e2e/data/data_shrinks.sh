# A file of data that becomes shorter while a run reads it ends the run with a sentence:
# what is mapped and no longer there would kill it.
# deadline: 120
set -eu
folder=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 $pid 2>/dev/null || true; rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME=$folder/state
cd "$folder"

fail() {
    echo "$1"
    cat out err 2>/dev/null || true
    exit 1
}

# shrinks FILE SETTING... - trains, cuts the file, and wants the sentence.
shrinks() {
    file=$1
    shift
    rm -rf run
    "$tutti" train "$@" threads=1 run=run train.steps=100000000 log.every=1 \
        eval.every=0 >out 2>err &
    pid=$!
    tries=0
    until grep -qs 'train/loss' run/metrics.jsonl; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || fail 'it does not begin'
        sleep 0.1
    done
    truncate -s 4096 "$file"
    status=0
    wait $pid || status=$?
    pid=
    [ $status -eq 2 ] || fail "$file: status $status"
    grep -q "$file became shorter while it was in use" err || fail "$file: no sentence"
}

head -c 2000000 /dev/zero >ids.bin
shrinks ids.bin model=gpt model.layers=1 model.width=8 model.heads=1 seq=32 batch=4 \
    data=tokens data.path=ids.bin data.dtype=u16 model.vocab=8
if command -v python3 >/dev/null; then
    python3 - <<'P'
import struct
open("x-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 0x803, 4000, 16, 16) + bytes(4000 * 256))
open("x-labels-idx1-ubyte", "wb").write(struct.pack(">II", 0x801, 4000) + bytes(k % 4 for k in range(4000)))
with open("t.csv", "w") as f:
    f.write("a,b,c,d,label\n")
    for k in range(60000):
        f.write(f"{k},1,2,3,{k % 4}\n")
P
    shrinks x-images-idx3-ubyte model=mlp model.width=8 batch=4 data=idx \
        data.path=x-images-idx3-ubyte data.labels=x-labels-idx1-ubyte
    shrinks t.csv model=mlp model.width=8 batch=4 data=csv data.path=t.csv
fi
