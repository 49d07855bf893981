# tools/netns: ranks on several hosts. What the kernel counts on the links is what the
# formula says, bits are those of shared memory, and nothing is left of the cluster
# however it ends.
# deadline: 180
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
netns=$(realpath tools/netns)
here=$(pwd)
export XDG_STATE_HOME="$folder/state" OMP_NUM_THREADS=1
export LSAN_OPTIONS="suppressions=$here/tests/leaks.txt:print_suppressions=0"
export ASAN_OPTIONS=fast_unwind_on_malloc=0
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

[ -e "$(dirname "$tutti")/libtutti-mpi-openmpi.so" ] || {
    echo 'Open MPI is not here'
    exit 77
}
"$netns" --hosts 2 -- hostname >out 2>err
status=$?
if [ $status -eq 77 ]; then
    cat err
    exit 77
fi
[ $status -eq 0 ] || fail "status $status: $(cat err)"
[ "$(sort out | tr '\n' ' ')" = 'h1 h2 ' ] || fail "hosts: $(cat out)"

# The command's status is its own; wrong words are refused.
"$netns" --hosts 2 -- sh -c 'exit 5' >out 2>&1
[ $? -eq 5 ] || fail "status $? instead of 5"
for words in '--hosts x -- true' '--hosts 2' '--speed 3 -- true' \
    '--rate fast -- true'; do
    # shellcheck disable=SC2086
    "$netns" $words >out 2>&1
    [ $? -eq 2 ] || fail "$words: $(cat out)"
    grep -q '^netns: ' out || fail "$words: $(cat out)"
done

# Bytes on every link: those of the collective's formula, once more for the round
# that is not measured, and headers.
for n in 2 3; do
    "$netns" --hosts $n --count -- "$tutti" bench allreduce bytes=8m seconds=0.4 \
        algorithm=ring --json >out 2>err || fail "bench: $(cat err)"
    python3 - $n <<'END' || exit 1
import json, re, sys
n = int(sys.argv[1])
row, = json.load(open("out"))
links = re.findall(r"^h\d+: sent (\d+) bytes .* received (\d+) ",
                   open("err").read(), re.M)
assert len(links) == n, open("err").read()
formula = 2 * (n - 1) / n * row["bytes"]
assert abs(row["bytes_sent"] - formula) < 8 * n, row
for sent, received in links:
    for counted in (int(sent), int(received)):
        ratio = counted / (formula * (row["rounds"] + 1))
        assert 1 <= ratio <= 1.02, f"{n} hosts: {ratio} of the formula's bytes"
share = row["bus_bytes_per_second"] / 125e6
assert 0.1 < share < 1.05, f"{n} hosts: {share} of the link"
END
done

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
collective: ring
END
"$tutti" train gpt.yaml run=memory -n 3 >out 2>&1 || fail "-n 3: $(cat out)"
"$netns" --hosts 3 -- "$tutti" train gpt.yaml run=network >out 2>&1 ||
    fail "network: $(cat out)"
grep -q '3 ranks on 3 hosts' out || fail "no banner: $(cat out)"
model=checkpoints/step-00000004/model.safetensors
cmp memory/$model network/$model || fail 'other bits across the network'

# Killed in any way, the cluster is gone with all that ran on it: nobody holds the
# file any more.
for signal in TERM KILL; do
    rm -f started
    "$netns" --hosts 2 -- sh -c '
        exec 9>>held
        flock -s 9
        echo >>started
        exec sleep 99' >out 2>&1 &
    job=$!
    for _ in $(seq 200); do
        [ -e started ] && [ "$(wc -l <started)" -eq 2 ] && break
        sleep 0.1
    done
    [ -e started ] || fail "not started: $(cat out)"
    kill -$signal $job
    wait $job 2>/dev/null && fail "$signal: status 0"
    flock -w 10 -x held true || fail "$signal: still running"
done
