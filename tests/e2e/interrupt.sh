# Ctrl-C before there is anything to save, and while text is written: one sentence and
# status 130, and no signal that a shell has to explain.
# deadline: 60
set -eu
command -v python3 >/dev/null || {
    echo 'skipped: no python3'
    exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME=$folder/state
gpt=$(realpath examples/gpt-tiny.yaml)
cd "$folder"
"$tutti" train "$gpt" threads=1 run=run >out 2>&1
python3 - "$tutti" "$gpt" <<'P'
import os, signal, subprocess, sys, time

def press(words, wait):
    """Starts it with Ctrl-C as a terminal has it, waits, and presses it."""
    p = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    wait(p)
    p.send_signal(signal.SIGINT)
    return p.returncode, *p.communicate(timeout=30)[1:], p.returncode

_, err, status = press([sys.argv[1], "sample", "run", "tokens=1000000"],
                       lambda p: p.stdout.read(20))
assert status == 130 and err.endswith("\ntutti: stopped; the text is not finished\n"), (status, err)

# A text that takes a while to open; the first try may come before the program is there.
with open("long.txt", "w") as f:
    for k in range(1000000):
        f.write(f"{k * 7919 % 1000003} the cat sat on mat number {k}\n")
for delay in (0.1, 0.15, 0.2, 0.3, 0.5, 1):
    _, err, status = press([sys.argv[1], "train", "model=gpt", "data=text",
                            "data.path=long.txt", "run=new", "threads=1",
                            "train.steps=10"], lambda p: time.sleep(delay))
    if status != -signal.SIGINT:
        break
assert status == 130 and "\ntutti: stopped before training began" in err, (status, err)
assert not os.path.exists("new"), os.listdir("new")
P
