# Ranks that mpirun or mpiexec started: collectives are right and have the bits of
# shared memory, training too; a rank that dies, stops or differs ends the job and is
# named; without its plug-in the program says what is missing.
# deadline: 240
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
build=$(dirname "$tutti")
here=$(pwd)
export XDG_STATE_HOME="$folder/state" OMP_NUM_THREADS=1
# Open MPI binds two ranks to two cores: other tests are there already.
export OMPI_MCA_hwloc_base_binding_policy=none
# Open MPI keeps its files in one folder for all its jobs, which the last to end removes.
export OMPI_MCA_orte_tmpdir_base=$folder
export LSAN_OPTIONS="suppressions=$here/tests/leaks.txt:print_suppressions=0"
export ASAN_OPTIONS=fast_unwind_on_malloc=0
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

open_mpi() {
    n=$1
    shift
    timeout 100 mpirun.openmpi --allow-run-as-root --oversubscribe -n "$n" "$@"
}

mpich() {
    n=$1
    shift
    timeout 100 mpiexec.mpich -n "$n" "$@"
}

kinds=
command -v mpirun.openmpi >/dev/null && [ -e "$build/libtutti-mpi-openmpi.so" ] &&
    kinds='open_mpi'
command -v mpiexec.mpich >/dev/null && [ -e "$build/libtutti-mpi-mpich.so" ] &&
    kinds="$kinds mpich"
if [ -z "$kinds" ]; then
    echo 'neither Open MPI nor MPICH is here'
    exit 77
fi

bits() {
    sed -n 's/.* holds .*bits \([0-9a-f]*\)$/\1/p' "$1"
}

cat >gpt.yaml <<'END'
model: gpt
model.layers: 1
model.heads: 2
model.width: 16
model.context: 8
data: synthetic
data.size: 1000
data.classes: 16
batch: 12
optim.lr: 0.01
train.steps: 6
collective: ring
END

"$tutti" check coll ranks=3 >shm 2>&1 || fail "check coll: $(cat shm)"
"$tutti" train gpt.yaml run=memory -n 3 >out 2>&1 || fail "-n 3: $(cat out)"
model=checkpoints/step-00000006/model.safetensors
"$tutti" train gpt.yaml exchange.policy=ps run=drawn -n 3 >out 2>&1 || fail "workers: $(cat out)"
for kind in $kinds; do
    $kind 3 "$tutti" check coll >out 2>&1 || fail "$kind: $(cat out)"
    [ -n "$(bits out)" ] && [ "$(bits out)" = "$(bits shm)" ] ||
        fail "$kind: $(cat out) is not $(cat shm)"
    $kind 3 "$tutti" check transport >out 2>&1 || fail "$kind: $(cat out)"
    $kind 3 "$tutti" train gpt.yaml run="$kind" >out 2>&1 ||
        fail "$kind: $(cat out)"
    grep -q 'ranks .*3 ranks on 1 host (mpi.*, MPI (\(Open MPI\|MPICH\) ' out ||
        fail "$kind: no banner: $(cat out)"
    cmp "memory/$model" "$kind/$model" || fail "$kind: other bits than shm"

    # Stages of a pipeline, alone and with data parallelism.
    for ranks in 2 4; do
        $kind $ranks "$tutti" verify gpt.yaml mesh.pipe=2 model.layers=2 accumulate=3 \
            zero=1 precision=fp64 >out 2>&1 || fail "$kind: stages: $(cat out)"
        [ "$(tail -n 1 out)" = 'the same' ] || fail "$kind: stages: $(cat out)"
        $kind $ranks "$tutti" train gpt.yaml mesh.pipe=2 model.layers=2 accumulate=3 \
            run="$kind-$ranks" >out 2>&1 || fail "$kind: stages: $(cat out)"
    done

    # Workers at their own pace; drawn, they have the bits of shared memory.
    for more in exchange.policy=ps 'exchange.policy=ps exchange.schedule=wall' \
        'exchange.policy=adpsgd exchange.schedule=wall'; do
        rm -rf workers
        # shellcheck disable=SC2086 # words
        $kind 3 "$tutti" train gpt.yaml $more run=workers >out 2>&1 ||
            fail "$kind: $more: $(cat out)"
        case $more in *wall) continue ;; esac
        cmp "drawn/$model" "workers/$model" || fail "$kind: $more: other bits than shm"
    done

    # A rank with other settings is named, by one sentence.
    $kind 2 sh -c '
        rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
        exec "$0" train gpt.yaml run=other optim.lr=0.0$((rank + 1))' "$tutti" \
        >out 2>err
    [ $? -ne 0 ] || fail "$kind: other settings are trained"
    grep -q 'tutti: rank 1 has another .*optim.lr is 0.02 there' err ||
        fail "$kind: $(cat err)"

    # A rank that finds no data ends all with its own sentence.
    mkdir -p at0 at1
    seq 2000 >at0/words.txt
    $kind 2 sh -c '
        cd "at${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" &&
        exec "$0" train model=gpt model.layers=1 model.heads=2 model.width=16 \
            model.context=8 batch=4 train.steps=2 data=text \
            data.path=words.txt' "$tutti" >out 2>err
    [ $? -ne 0 ] || fail "$kind: trained without data"
    grep -q '^tutti: rank 1: .*words.txt: No such file' err ||
        fail "$kind: no data: $(cat err)"
    grep -q 'different things\|Fatal error' err && fail "$kind: $(cat err)"

    # One that finds other data too.
    seq 2000 | sed 's/^77$/78/' >at1/words.txt
    $kind 2 sh -c '
        cd "at${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" &&
        exec "$0" train model=gpt model.layers=1 model.heads=2 model.width=16 \
            model.context=8 batch=4 train.steps=2 data=text \
            data.path=words.txt' "$tutti" >out 2>err
    [ $? -ne 0 ] || fail "$kind: trained with other data"
    grep -q '^tutti: rank 1 has other data than rank 0: words.txt has other' err ||
        fail "$kind: other data: $(cat err)"
    rm -r at0 at1

    # The plug-in is looked for where it may be.
    cp "$tutti" alone
    $kind 2 ./alone check coll only=naive >out 2>&1 &&
        fail "$kind: works without a plug-in"
    grep -q 'libtutti-mpi-.*\.so is not in' out || fail "$kind: $(cat out)"
    TUTTI_PLUGINS=/nowhere:$build $kind 2 ./alone check coll only=naive >out 2>&1 ||
        fail "$kind: TUTTI_PLUGINS: $(cat out)"
done
mkdir -p installed/bin installed/lib
cp "$tutti" installed/bin
cp "$build"/libtutti-mpi-*.so installed/lib
for kind in $kinds; do
    $kind 2 installed/bin/tutti check coll only=naive >out 2>&1 ||
        fail "$kind: installed: $(cat out)"
done

# after KIND SIGNAL SECONDS DEADLINE [COLLECTIVE] - what is said when rank 1 of 3 gets it.
after() {
    rm -f pid out
    $1 3 sh -c '
        [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || echo $$ >pid
        exec "$0" train gpt.yaml run=long train.steps=1000000 checkpoint.every=20 \
            comm.deadline=$1 collective=$2 --fresh' "$tutti" "$4" "${5:-auto}" >out 2>&1 &
    job=$!
    for _ in $(seq 200); do
        grep -q '^step 2' out 2>/dev/null && [ -e long/checkpoints/latest ] && break
        sleep 0.1
    done
    kill "-$2" "$(cat pid)" || fail "no rank to kill: $(cat out)"
    begun=$(date +%s)
    wait $job && fail "$1: $2: trained on"
    [ $(($(date +%s) - begun)) -le "$3" ] || fail "$1: $2: too late: $(cat out)"
    for _ in $(seq 50); do
        grep -q '^State:.*[^Z] (' "/proc/$(cat pid)/status" 2>/dev/null || return 0
        sleep 0.1
    done
    fail "$1: $2: rank 1 is still there: $(grep State "/proc/$(cat pid)/status")"
}
# A signal to a rank: all of them end with status 3, whichever ends first.
for kind in $kinds; do
    rm -f pid out status.*
    $kind 2 sh -c '
        rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
        "$0" train gpt.yaml run=signal train.steps=1000000 --fresh &
        [ $rank != 1 ] || echo $! >pid
        wait $!
        echo $? >status.$rank' "$tutti" >out 2>&1 &
    job=$!
    for _ in $(seq 200); do
        grep -q '^step 1' out 2>/dev/null && break
        sleep 0.1
    done
    kill -TERM "$(cat pid)" || fail "no rank to end: $(cat out)"
    wait $job
    [ "$(cat status.0 status.1 | tr '\n' ' ')" = "3 3 " ] ||
        fail "$kind: TERM: $(head status.*): $(cat out)"
done
for kind in $kinds; do
    after "$kind" KILL 10 20
    grep -q "^tutti: rank 1 (host .*, pid $(cat pid)) stopped in .*: it was killed" out ||
        fail "$kind: KILL: $(cat out)"
    grep -q 'it crashed; the checkpoint of step [0-9]*0 in long is good: the same command without --fresh goes on' out ||
        fail "$kind: KILL: no word about the checkpoint: $(cat out)"
    [ "$(grep -c '^tutti: \|^\[rank' out)" -eq 1 ] || fail "$kind: KILL: $(cat out)"
done
case $kinds in
*open_mpi*)
    after open_mpi STOP 20 3
    grep -q 'rank 1 gave no sign of life.* while rank [02] waited' out ||
        fail "STOP: $(cat out)"
    # In a ring rank 0 waits for rank 2, which waits for the one that is stopped.
    after open_mpi STOP 20 3 ring
    grep -q 'rank 1 gave no sign of life.* while rank [02] waited' out ||
        fail "STOP in a ring: $(cat out)"
    ;;
esac
