# tutti schedule: draws, prints and reads tables; refuses wrong ones with the row.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
cd "$folder"

die() {
    echo "$1"
    exit 1
}

# refused TEXT WORD... - ends with status 2 and says TEXT.
refused() {
    text=$1
    shift
    status=0
    "$tutti" schedule "$@" >out 2>err || status=$?
    [ $status -eq 2 ] || die "tutti schedule $*: status $status"
    grep -qF -- "$text" err || die "tutti schedule $*: $(cat err)"
}

"$tutti" schedule 1f1b ranks=3 micro=4 >out
grep -qF 'rank 2  ......F0 B0--- F1 B1--- F2 B2--- F3 B3--- ............' out ||
    die "not drawn: $(cat out)"
grep -qF 'bubble 6 s (33.3 %); by the formula 6 s' out || die "bubble: $(cat out)"
grep -q "$(printf '\033')" out && die 'colours in a file'

# What is printed is read back, and drawn alike.
for name in $("$tutti" list schedules | awk '/^[^ ]/ {print $1}'); do
    set --
    [ "$name" = late ] && set -- ranks=1 chunks=3
    "$tutti" schedule "$name" "$@" --text >table
    "$tutti" schedule table --text >again
    cmp -s table again || die "$name is not read back"
    "$tutti" schedule "$name" "$@" | grep -E '^(rank )?[0-9]' >first || true
    "$tutti" schedule table | grep -E '^(rank )?[0-9]' >second || true
    cmp -s first second || die "$name is drawn in another way"
done

# Uneven chunks, messages, options, pictures.
"$tutti" schedule zb-h2 slots=5 ranks=2 forward=1,2 move=0.5 --svg out.svg --json >out
grep -q '^<svg ' out.svg || die 'no picture'
if command -v python3 >/dev/null; then
    python3 - <<'END' || die 'JSON'
import json, xml.dom.minidom
d = json.load(open("out"))
assert len(d["ranks"]) == 2 and "formula" not in d, d
assert len(d["ranks"][0]["rows"]) == 3 * 8 + 1
xml.dom.minidom.parse("out.svg")
END
fi

refused 'which schedule?'
refused 'did you mean 1f1b?' 1fb
refused 'neither a schedule nor a file' nothing.txt
refused 'even number of ranks' chimera ranks=3
refused '1 micro-batch: two copies' gems micro=1
refused 'has one; interleaved has several' 1f1b chunks=2
refused 'slots' 1f1b slots=3
refused 'forward has 2 numbers; give 1 or 4' 1f1b forward=1,2
refused 'deadlock: rank 0, row' gpipe chunks=2 micro=16 capacity=1
"$tutti" schedule 1f1b ranks=2 micro=2 --text >table
refused 'ranks: a table from a file has its own' table ranks=2
sed -i 's/B1.0:0< F1.1:0>/F1.1:0> B1.0:0</' table
refused 'rank 1, row 2: forward of chunk 1, micro-batch 1 takes slot 0, which micro-batch 0 still holds' table
printf 'ranks 2\nchunks 2\nmicro 1\nrank 0\n  F0.0:0<> X\n' >table
refused 'table:5: "X": a row begins with F, B, I, W or U' table
