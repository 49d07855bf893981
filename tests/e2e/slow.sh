# A disk that is slow beyond every deadline: peers wait for the rank that writes a
# checkpoint, whoever started them, and the run ends as if nothing had happened.
# deadline: 240
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
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

# The first weights that a rank writes take 12 s to reach the disk. comm.deadline=1
# used to give rank 0 up after 7 s.
cat >slow.c <<'END'
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int fsync(int fd)
{
    static int n;
    const struct timespec pause = {.tv_sec = 12};
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) > 0 &&
        strstr(path, "model.safetensors") != NULL &&
        __sync_fetch_and_add(&n, 1) == 0)
        (void)nanosleep(&pause, NULL);
    return (int)syscall(SYS_fsync, fd);
}
END
cc -shared -fPIC -o slow.so slow.c 2>err || {
    echo 'there is no C compiler'
    exit 77
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
train.steps: 4
checkpoint.every: 1
comm.deadline: 1
END
slow=$PWD/slow.so

by_ours() {
    LD_PRELOAD=$slow "$tutti" train gpt.yaml run="$1" -n 2
}

# Started apart, as torchrun does.
by_hand() {
    for rank in 0 1; do
        RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 \
            MASTER_PORT=$$ LD_PRELOAD=$slow \
            "$tutti" train gpt.yaml run="$1" &
        job="${job:-} $!"
    done
    for each in $job; do
        wait "$each" || return 1
    done
}

open_mpi() {
    mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 \
        -x LD_PRELOAD="$slow" "$tutti" train gpt.yaml run="$1"
}

mpich() {
    mpiexec.mpich -n 2 -genv LD_PRELOAD "$slow" \
        "$tutti" train gpt.yaml run="$1"
}

kinds='by_ours by_hand'
command -v mpirun.openmpi >/dev/null && [ -e "$build/libtutti-mpi-openmpi.so" ] &&
    kinds="$kinds open_mpi"
command -v mpiexec.mpich >/dev/null && [ -e "$build/libtutti-mpi-mpich.so" ] &&
    kinds="$kinds mpich"
for kind in $kinds; do
    begun=$(date +%s)
    (
        $kind "$kind" >"$kind.out" 2>&1
        echo $? >"$kind.status"
        echo $(($(date +%s) - begun)) >"$kind.took"
    ) &
done
wait
for kind in $kinds; do
    [ "$(cat "$kind.status")" = 0 ] ||
        fail "$kind: status $(cat "$kind.status"): $(cat "$kind.out")"
    [ "$(cat "$kind.took")" -ge 12 ] || fail "$kind: nothing was slow"
    grep -q 'done at step 4 of 4' "$kind.out" || fail "$kind: $(cat "$kind.out")"
done
