# A terminal that is closed, a reader that is gone and one that stands still: the run saves
# and ends, or goes on. And checkpoints by time, which survive a kill.
# deadline: 300
set -u
folder=$(mktemp -d)
pid=
trap '[ -n "$pid" ] && kill -9 $pid 2>/dev/null; rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME=$folder/state
cd "$folder" || exit 1

fail() {
    echo "$1"
    cat out err 2>/dev/null | tail -20
    exit 1
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
batch: 4
optim.lr: 0.01
log.every: 1
END

# started RUN - waits until the run has logged something.
started() {
    tries=0
    while [ ! -s "$1/metrics.jsonl" ]; do
        [ $tries -lt 400 ] || fail "$1 does not start"
        sleep 0.1
        tries=$((tries + 1))
    done
}

saved() {
    ls "$1"/checkpoints | grep -q '^step-' || fail "$1: nothing was saved"
}

# SIGHUP saves, on one rank and on two. (Whoever started these tests may have had it ignored.)
for ranks in 1 2; do
    env --default-signal=HUP "$tutti" train gpt.yaml run=hup$ranks train.steps=10000000 -n $ranks \
        >out 2>err &
    pid=$!
    started hup$ranks
    kill -HUP $pid
    wait $pid
    status=$?
    pid=
    [ $status -eq 3 ] || fail "SIGHUP with $ranks ranks: exit status $status"
    saved hup$ranks
done

# One SIGINT that reaches the launcher and all ranks, as from a terminal, and two at once,
# as from timeout, are one: it saves. A second one ends it at once.
for ranks in 1 3; do
    for how in group twice second; do
        rm -rf int
        setsid "$tutti" train gpt.yaml run=int train.steps=10000000 -n $ranks \
            >out 2>err &
        pid=$!
        started int
        if [ $how = twice ]; then
            kill -INT $pid -$pid
        else
            kill -INT -$pid
        fi
        if [ $how = second ]; then
            kill -STOP -$pid
            sleep 0.5 # far enough from the first to be another key
            kill -INT -$pid
            kill -CONT -$pid
        fi
        wait $pid
        status=$?
        pid=
        # A run that was quicker than the second SIGINT has saved.
        case $how$status in
        second130) continue ;;
        second3 | group3 | twice3) saved int ;;
        *) fail "SIGINT to $ranks ranks ($how): exit status $status" ;;
        esac
    done
done

# Under nohup it does not end a run.
nohup "$tutti" train gpt.yaml run=nohup train.steps=10000000 >out 2>err &
pid=$!
started nohup
kill -HUP $pid
sleep 0.5
kill -0 $pid || fail "nohup is not heeded"
kill -TERM $pid
wait $pid
[ $? -eq 3 ] || fail "SIGTERM after SIGHUP"
pid=

# Nobody reads what it prints any more.
"$tutti" train gpt.yaml run=piped train.steps=300 2>&1 | true
tries=0
until grep -q '"step":300,' piped/metrics.jsonl; do
    [ $tries -lt 300 ] || fail "a run ends because its reader is gone"
    sleep 0.1
    tries=$((tries + 1))
done

if ! command -v python3 >/dev/null; then
    exit 0
fi

# A terminal that is closed, and one that nobody reads.
python3 - "$tutti" <<'END' || fail "terminals"
import os, pty, sys, time, signal

def start(run, steps, *more):
    pid, fd = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL) # or it is as under nohup
        os.environ["TERM"] = "xterm"
        os.execv(sys.argv[1], ["tutti", "train", "gpt.yaml", "run=" + run,
                               "train.steps=%d" % steps, *more])
    return pid, fd

def ended(pid, seconds):
    end = time.time() + seconds
    while time.time() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None

def logged(run):
    path = run + "/metrics.jsonl"
    return os.path.exists(path) and os.path.getsize(path) > 0

for ranks in "1", "2":
    run = "closed" + ranks
    pid, fd = start(run, 10000000, "-n", ranks)
    end = time.time() + 60
    while not logged(run) and time.time() < end:
        os.read(fd, 65536)
    os.close(fd)
    status = ended(pid, 60)
    assert status == 3, (run, "closed terminal: exit status", status)
    steps = [n for n in os.listdir(run + "/checkpoints") if n.startswith("step-")]
    assert steps, "a closed terminal: nothing was saved"

pid, fd = start("unread", 1500, "log.every=1")
status = ended(pid, 120)
assert status == 0, ("a terminal that nobody reads: exit status", status)
END

# Checkpoints by time, on one rank and on two: a kill costs less than all.
for ranks in 1 2; do
    "$tutti" train gpt.yaml run=timed$ranks train.steps=10000000 -n $ranks \
        checkpoint.every=0 checkpoint.minutes=0.005 >out 2>err &
    pid=$!
    tries=0
    until ls timed$ranks/checkpoints 2>/dev/null | grep -q '^step-'; do
        [ $tries -lt 400 ] || fail "no checkpoint by time on $ranks ranks"
        sleep 0.1
        tries=$((tries + 1))
    done
    kill -9 $pid
    wait $pid 2>/dev/null
    pid=
    # Ranks end with their launcher, but not in the same moment.
    tries=0
    until "$tutti" train gpt.yaml run=timed$ranks train.steps=10000000 -n $ranks \
        train.stop=1 checkpoint.every=0 >out 2>err; do
        grep -q 'is in use by' err && [ $tries -lt 50 ] || fail "after a kill"
        sleep 0.2
        tries=$((tries + 1))
    done
    grep -q 'resumed at' out || fail "the checkpoint by time is not used"
    [ "$(ls timed$ranks/checkpoints | grep -c '^step-')" -eq 1 ] ||
        fail "checkpoints by time pile up"
done
exit 0
