# What a run shows: plain lines in a pipe; on a terminal two lines that are redrawn
# in place, never wider than it is.
# deadline: 120
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder"

die() {
    echo "$1"
    exit 1
}

train="train examples/gpt-tiny.yaml threads=1 eval.every=10 --fresh"
# shellcheck disable=SC2086
"$TUTTI" $train run="$folder/run" >"$folder/out" 2>"$folder/err"
[ ! -s "$folder/err" ] || die "errors: $(cat "$folder/err")"
for name in model parameters data batch precision optimiser memory work steps \
    run loss stalls report next; do
    grep -q "^  $name  *[^ ]" "$folder/out" || die "no line about $name"
done
[ "$(grep -cE '^step [0-9]+/20  loss [0-9.]+  lr [0-9.e+-]+  norm [0-9.]+  [0-9.]+ [mu]?s  [0-9.]+( k| M)? tokens/s  mem [0-9.]+ MB$' "$folder/out")" -eq 4 ] ||
    die "the lines of steps: $(cat "$folder/out")"
[ "$(grep -cE '^eval (10|20)/20  loss [0-9.]+  perplexity [0-9.]+  ' "$folder/out")" -eq 2 ] ||
    die 'the lines of evaluations'
grep -q "^done at step 20 of 20 after " "$folder/out" || die 'the last line'
if LC_ALL=C grep -q "$(printf '[\033\r]')" "$folder/out"; then
    die 'a pipe gets escape sequences'
fi

# A reader that goes away is no reason to stop.
# shellcheck disable=SC2086
"$TUTTI" $train run="$folder/closed" | head -n 1 >/dev/null
[ -s "$folder/closed/report.html" ] || die 'the run ended with its reader'

command -v python3 >/dev/null || {
    echo 'python3 is not installed'
    exit 77
}
cat >"$folder/terminal.py" <<'P'
"""terminal.py COLUMNS COMMAND... - runs it on a terminal of that width, checks
what it writes there and prints the text."""
import fcntl, os, pty, re, struct, sys, termios

columns = int(sys.argv[1])
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2):
        os.dup2(slave, fd)
    os.execvp(sys.argv[2], sys.argv[2:])
os.close(slave)
data = b""
while True:
    try:
        piece = os.read(master, 65536)
    except OSError:
        break
    if not piece:
        break
    data += piece
assert os.waitpid(pid, 0)[1] == 0
text = data.decode()
is_live = os.environ["TERM"] != "dumb"
codes = set(re.findall("\x1b\\[([0-9;?]*[A-Za-z])", text))
assert "\x1b" not in re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", text)
assert not [c for c in codes if "?" in c], codes  # no mode is changed
assert is_live == ("1A" in codes), codes
assert ("NO_COLOR" in os.environ or not is_live) != ("0m" in codes), codes
plain = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", text)
lines = [l for l in re.split("[\r\n]+", plain) if " left" in l or l.startswith("loss ")]
assert all(len(l) < columns for l in lines), lines
assert (len(lines) >= 2) == is_live or columns < 30, lines
assert text.endswith("\n")
sys.stdout.write(re.sub("[\r\n]+", "\n", plain))
P
export TERM=xterm LC_ALL=C.UTF-8
unset NO_COLOR
for columns in 120 80 40 20 5; do
    # shellcheck disable=SC2086
    python3 "$folder/terminal.py" $columns "$TUTTI" $train \
        run="$folder/wide" >"$folder/out" 2>"$folder/err" ||
        die "a terminal of $columns columns: $(cat "$folder/err")"
done
# shellcheck disable=SC2086
for setting in NO_COLOR=1 TERM=dumb LC_ALL=C; do
    env "$setting" python3 "$folder/terminal.py" 90 "$TUTTI" $train \
        run="$folder/other" >"$folder/out" 2>"$folder/err" ||
        die "$setting: $(cat "$folder/err")"
    grep -q "^eval 20/20" "$folder/out" || die "$setting: no evaluation"
done
if LC_ALL=C grep -q "$(printf '[\200-\377]')" "$folder/out"; then
    die 'a terminal without UTF-8 gets it'
fi
