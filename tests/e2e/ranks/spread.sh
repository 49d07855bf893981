# Checkpoints of states in parts, while their parts are on the way to the writer: over a
# slow link training does not wait for them; a rank that is killed meanwhile costs
# nothing that was saved; a full disk is a warning; every time the run ends with the bits
# of one that was left alone.
# deadline: 300
set -u
folder=$(mktemp -d)
pid=
trap '[ -n "$pid" ] && kill -9 $pid 2>/dev/null; rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
build=$(dirname "$tutti")
here=$(pwd)
export XDG_STATE_HOME="$folder/state" XDG_CACHE_HOME="$folder/cache"
export OMP_NUM_THREADS=1 OMPI_MCA_hwloc_base_binding_policy=none
# Open MPI keeps its files in one folder for all its jobs, which the last to end removes.
export OMPI_MCA_orte_tmpdir_base=$folder
export LSAN_OPTIONS="suppressions=$here/tests/leaks.txt:print_suppressions=0"
export ASAN_OPTIONS=fast_unwind_on_malloc=0:verify_asan_link_order=0
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

cat >gpt.yaml <<'END'
model: gpt
model.layers: 2
model.heads: 2
model.width: 64
model.context: 8
data: synthetic
data.size: 1000
data.classes: 16
batch: 4
optim.lr: 0.01
threads: 1
zero: 3
train.steps: 12
log.every: 1
checkpoint.every: 4
END

# same RUN - its last checkpoint has the bits of the undisturbed run.
same() {
    for file in model optim; do
        cmp "alone/checkpoints/step-00000012/$file.safetensors" \
            "$1/checkpoints/step-00000012/$file.safetensors" ||
            fail "$1: other bits"
    done
}

# stall RUN - fails if the loop has waited more than a tenth of a step per checkpoint.
# Of the three the last one is waited for anyway.
stall() {
    python3 - "$1" <<'END' || fail "$1: training waited for its checkpoints"
import json, statistics, sys
facts = json.load(open(sys.argv[1] + "/facts.json"))
steps = [point["step_seconds"] for point in
         map(json.loads, open(sys.argv[1] + "/metrics.jsonl"))
         if "step_seconds" in point]
step, waited = statistics.median(steps), facts["time"]["checkpoints"] / 2
print("a step %.3f s, a checkpoint %.3f s" % (step, waited))
# A tenth of a step; on a slow machine, a quarter of what the link would take. (How long a
# stall is, bench/checkpoint_stall measures. Here the question is whether ranks wait for
# the link.)
sys.exit(waited > max(0.1 * step, 0.25 * 1.3e6 / 3e6))
END
}

"$tutti" train gpt.yaml run=alone -n 2 >out 2>err || fail "alone: $(cat out err)"

# A link of 3 MB/s: a gather of 1.3 MB would take as long as a step does.
"$tutti" train gpt.yaml run=slow -n 2 comm.slow_rate=3e6 >out 2>err ||
    fail "slow: $(cat out err)"
stall slow
same slow

# Over MPI parts go as messages, one piece per step.
if command -v mpirun.openmpi >/dev/null && [ -e "$build/libtutti-mpi-openmpi.so" ]; then
    timeout 100 mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 \
        "$tutti" train gpt.yaml run=mpi transport=mpi comm.slow_rate=3e6 \
        >out 2>err || fail "mpi: $(cat out err)"
    stall mpi
    same mpi
fi

# The disk takes 2 s for the weights of step 4, so ranks die while they are written:
# rank 1 alone, rank 0 alone, all with the launcher.
cat >slow.c <<'END'
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int fsync(int fd)
{
    const struct timespec pause = {.tv_sec = 2};
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) > 0 &&
        strstr(path, "step-00000004") != NULL &&
        strstr(path, "model.safetensors") != NULL) {
        FILE *sign = fopen(getenv("SIGN"), "w");
        if (sign != NULL)
            (void)fclose(sign);
        (void)nanosleep(&pause, NULL);
    }
    return (int)syscall(SYS_fsync, fd);
}
END
cc -shared -fPIC -o slow.so slow.c 2>err || {
    echo 'there is no C compiler'
    exit 77
}

for who in 1 2 launcher; do
    rm -f sign
    SIGN=$folder/sign LD_PRELOAD=$folder/slow.so \
        "$tutti" train gpt.yaml run="killed-$who" -n 2 >out 2>err &
    pid=$!
    i=0
    while [ ! -e sign ]; do
        sleep 0.05
        i=$((i + 1))
        [ $i -lt 1200 ] || fail "killed $who: nothing was saved: $(cat out err)"
    done
    if [ $who = launcher ]; then
        kill -9 $pid
    else
        victim=$(ps -o pid= --ppid $pid | sort -n | sed -n "${who}p")
        kill -9 $victim
    fi
    wait $pid 2>/dev/null && fail "killed $who: it ended well"
    pid=
    "$tutti" train gpt.yaml run="killed-$who" -n 2 >out 2>err ||
        fail "killed $who, again: $(cat out err)"
    same "killed-$who"
    [ -z "$(find "killed-$who" -name '.tmp*')" ] || fail "killed $who: left over"
done

# A stop while parts are written: it is saved at once after them, and goes on.
rm -f sign
SIGN=$folder/sign LD_PRELOAD=$folder/slow.so \
    "$tutti" train gpt.yaml run=stopped -n 2 train.steps=12 comm.slow_rate=3e6 \
    >out 2>err &
pid=$!
i=0
while [ ! -e sign ]; do
    sleep 0.05
    i=$((i + 1))
    [ $i -lt 1200 ] || fail "stopped: nothing was saved: $(cat out err)"
done
kill -TERM $pid
wait $pid
status=$?
pid=
[ $status -eq 3 ] || fail "stopped: status $status: $(cat out err)"
grep -q 'stopped and saved at step' out || fail "stopped: $(cat out err)"
"$tutti" train gpt.yaml run=stopped -n 2 >out 2>err || fail "stopped: $(cat out err)"
same stopped

# A checkpoint is due while the one before is still being written: it waits for it.
rm -f sign
SIGN=$folder/sign LD_PRELOAD=$folder/slow.so \
    "$tutti" train gpt.yaml run=dense -n 3 batch=12 checkpoint.every=1 \
    checkpoint.keep=12 >out 2>err || fail "dense: $(cat out err)"
"$tutti" train gpt.yaml run=streamed -n 3 batch=12 checkpoint.every=1 \
    checkpoint.keep=12 checkpoint.memory=1 >out 2>err || fail "streamed: $(cat out err)"
for step in 01 02 03 04 05 06 07 08 09 10 11 12; do
    for file in model optim; do
        cmp "dense/checkpoints/step-000000$step/$file.safetensors" \
            "streamed/checkpoints/step-000000$step/$file.safetensors" ||
            fail "step $step: not what was gathered"
    done
done

# No room on the disk: older checkpoints stay, training goes on, the last one fails.
"$tutti" train gpt.yaml run=full -n 2 train.stop=4 >out 2>err || fail "first part"
(
    ulimit -f 100
    "$tutti" train gpt.yaml run=full -n 2 >out 2>err
)
status=$?
[ $status -eq 2 ] || fail "full: exit status $status, not 2: $(cat out err)"
grep -q 'no checkpoint of step 8, the newest that is good is that of step 4' out ||
    fail "full: no warning: $(cat out err)"
grep -q 'step 12 could not be saved; the newest that is good is that of step 4' err ||
    fail "full: no clear error: $(cat out err)"
"$tutti" train gpt.yaml run=full -n 2 >out 2>err || fail "full, again: $(cat out err)"
same full
