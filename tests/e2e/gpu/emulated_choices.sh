# What was measured of products is kept: the next run reads it and measures nothing.
# deadline: 300
set -eu
program=${TUTTI_BUILD:-build}/emulated/tutti
if [ ! -x "$program" ]; then
    echo 'the emulated device is part of the plain build alone'
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder/state" XDG_CACHE_HOME="$folder/cache"
kept=$folder/cache/tutti/choices-cuda.txt

die() {
    echo "$1"
    exit 1
}

run() {
    "$program" bench step examples/gpt-tiny.yaml device=cuda precision=bf16 batch=2 \
        model.layers=1 warmup=0 steps=1 --json >"$1" || die "$1 failed"
}

run "$folder/first"
grep -q '^emulated .* gemm ' "$kept" || die "nothing was kept: $(cat "$kept")"
grep -q '^emulated .* epilogue ' "$kept" || die "no epilogues: $(cat "$kept")"
before=$(stat -c %i "$kept")
run "$folder/second"
[ "$(stat -c %i "$kept")" = "$before" ] || die "the second run wrote the file again"

# A file of somebody else is replaced by what is right.
cp "$kept" "$folder/right"
echo "somebody else's" >"$kept"
run "$folder/third"
sort "$kept" | grep -v '^end ' >"$folder/a"
sort "$folder/right" | grep -v '^end ' >"$folder/b"
cmp -s "$folder/a" "$folder/b" || die "$(diff "$folder/a" "$folder/b")"

# Where nothing can be kept, training goes on.
export XDG_CACHE_HOME="$folder/first"
run "$folder/fourth"
for n in second third fourth; do
    [ "$(sed 's/.*"loss": *//' "$folder/$n")" = "$(sed 's/.*"loss": *//' "$folder/first")" ] ||
        die "$n: $(cat "$folder/$n" "$folder/first")"
done
