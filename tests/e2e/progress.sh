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
grep -qE '^step 0/20  loss [0-9.]+  before the first update$' "$folder/out" ||
    die 'the loss at step 0'
first=$(sed -n 's/.*"step":0,.*"train\/loss":\([0-9.]*\).*/\1/p' \
    "$folder/run/metrics.jsonl")
[ -n "$first" ] || die 'the metrics do not begin at step 0'
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
# Words are whole: a line is longer than the terminal only if it is one word.
for l in re.split("[\r\n]+", plain):
    assert len(l) <= columns or columns < 20 or " " not in l.strip(" │|"), l
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

# Started again, the curve and the last evaluation are there at once.
"$TUTTI" train examples/gpt-tiny.yaml threads=1 eval.every=5 run="$folder/again" \
    train.stop=10 --fresh >"$folder/out"
val=$(sed -n 's/^eval 10.*loss \([0-9.]*\) .*/\1/p' "$folder/out")
python3 "$folder/terminal.py" 100 "$TUTTI" train examples/gpt-tiny.yaml \
    threads=1 eval.every=5 run="$folder/again" >"$folder/out"
grep -m 1 '^loss ' "$folder/out" | grep -qF "val $val" ||
    die "after a resume the validation is gone: $(cat "$folder/out")"
grep -m 1 '^loss ' "$folder/out" | grep -q '[▁▂▃▄▅▆▇█][▁▂▃▄▅▆▇█]' ||
    die 'after a resume the curve is gone'

# A terminal that changes its width all the time, and wraps lines that are too long or
# cuts them: what stands above the live lines stays.
cat >"$folder/resize.py" <<'P'
"""resize.py wrap|cut COMMAND... - a terminal without end that is resized."""
import fcntl, os, pty, re, select, struct, sys, termios, time


class Screen:
    """Lines; where they wrap, a long one has several rows."""

    def __init__(self, wraps, width):
        self.wraps, self.width = wraps, width
        self.lines, self.line, self.at = [""], 0, 0

    def row(self):  # where the cursor's row begins in its line
        at = self.at - 1 if self.at and self.at % self.width == 0 else self.at
        return at // self.width * self.width

    def resize(self, width):
        if not self.wraps:  # what does not fit is gone
            self.lines = [l[:width] for l in self.lines]
            self.at = min(self.at, width)
        self.width = width

    def up(self):
        column = self.at - self.row()
        if self.row() > 0:
            self.at -= self.width
        elif self.line > 0:
            self.line -= 1
            rows = max(0, len(self.lines[self.line]) - 1) // self.width
            self.at = rows * self.width + column

    def put(self, c):
        if not self.wraps and self.at >= self.width:
            self.newline()
        l = self.lines[self.line].ljust(self.at)
        self.lines[self.line] = l[:self.at] + c + l[self.at + 1:]
        self.at += 1

    def newline(self):
        self.line += 1
        self.at = 0
        if self.line == len(self.lines):
            self.lines.append("")

    def clear(self, is_all):
        l = self.lines[self.line]
        end = len(l) if is_all else self.row() + self.width
        rest = " " * (end - self.at) + l[end:] if end < len(l) else ""
        self.lines[self.line] = l[:self.at] + rest
        if is_all:
            del self.lines[self.line + 1:]

    def feed(self, text):
        for m in re.finditer("\x1b\\[([0-9;]*)([A-Za-z])|.", text, re.S):
            code, c = m.group(2), m.group(0)
            if code == "A":
                for _ in range(int(m.group(1) or 1)):
                    self.up()
            elif code in ("J", "K"):
                self.clear(code == "J")
            elif c == "\r":
                self.at = self.row()
            elif c == "\n":
                self.newline()
            elif not code:
                self.put(c)


def set_width(fd, width):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))


widths = [110, 50, 90, 34, 110, 60, 25, 100]
master, slave = pty.openpty()
set_width(slave, widths[0])
screen = Screen(sys.argv[1] == "wrap", widths[0])
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2):
        os.dup2(slave, fd)
    os.execvp(sys.argv[2], sys.argv[2:])
os.close(slave)
at, pending, last, n = 0, b"", time.monotonic(), 0
while True:
    if select.select([master], [], [], 0.05)[0]:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        pending += piece
        # What is cut in the middle waits for its other half.
        cut = re.search(b"(\x1b[^A-Za-z]*|[\xc0-\xff][\x80-\xbf]?)$", pending)
        whole = len(pending) if cut is None else cut.start()
        screen.feed(pending[:whole].decode(errors="replace"))
        pending = pending[whole:]
        n += 1
    if n > 3 and time.monotonic() - last > 0.15:
        at, last = at + 1, time.monotonic()
        screen.resize(widths[at % len(widths)])
        set_width(master, screen.width)
assert os.waitpid(pid, 0)[1] == 0
assert at >= 3, "it was never resized"
print("\n".join(screen.lines))
P
for kind in wrap cut; do
    python3 "$folder/resize.py" $kind "$TUTTI" train examples/gpt-tiny.yaml \
        threads=1 eval.every=10 train.steps=160 run="$folder/$kind" --fresh \
        >"$folder/out" || die "resizing, $kind: $(cat "$folder/out")"
    for text in 'Tutti ' '  model  ' '  parameters  ' '  optimiser  ' \
        '  run  ' 'step 0/160' 'eval 10/160' 'eval 20/160' 'eval 30/160' \
        'eval 80/160' 'eval 150/160' 'eval 160/160' 'done at step 160'; do
        grep -qF "$text" "$folder/out" ||
            die "resizing erased \"$text\" where lines $kind: $(cat "$folder/out")"
    done
done
