# In a control group of 300 MB, which is not that of the whole machine, what does not
# fit is refused with a sentence before the kernel ends it without one.
# deadline: 120
set -u
folder=$(mktemp -d)
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME="$folder/state" OMP_NUM_THREADS=1
group=
trap '[ -z "$group" ] || rmdir "$group"; rm -rf "$folder"' EXIT
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

case $(basename "$(dirname "$tutti")") in
san | tsan)
    echo 'sanitizers take more memory than the group has'
    exit 77
    ;;
esac
for top in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    [ -d "$top" ] && mkdir "$top/tutti-test-$$" 2>/dev/null || continue
    group=$top/tutti-test-$$
    for limit in memory.limit_in_bytes memory.max; do
        [ -w "$group/$limit" ] && echo $((300 << 20)) >"$group/$limit" && break 2
    done
    rmdir "$group"
    group=
done
if [ -z "$group" ] || ! sh -c "echo \$\$ >$group/cgroup.procs" 2>/dev/null; then
    echo 'no control group can be made here'
    exit 77
fi

# train WIDTH - in the group; its status is the program's.
train() {
    sh -c 'echo $$ >"$0/cgroup.procs"; shift; exec "$@"' "$group" x \
        "$tutti" train model=gpt model.layers=4 model.heads=8 model.context=8 \
        "model.width=$1" data=synthetic data.size=1000 data.classes=16 \
        batch=12 train.steps=2 run=run --fresh >out 2>&1
}

train 256
status=$?
[ $status -eq 0 ] || fail "what fits: status $status: $(cat out)"
# Steps alone would fit, a checkpoint beside them does not; then not even steps.
for width in 448 1024; do
    train $width
    status=$?
    [ $status -eq 2 ] || fail "width $width: status $status: $(cat out)"
    grep -q 'needs .* of memory, but [23][0-9][0-9]* MB are available' out ||
        fail "width $width: $(cat out)"
done
