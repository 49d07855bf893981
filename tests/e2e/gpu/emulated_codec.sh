# Codecs on the emulated device: codes of every length are the reference's, what is sent is
# what the CPU sends, in bytes and in error; those without a kernel run on the host and are
# timed all the same.
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

for what in topk_encode topk_sum nonzero_ threshold_ dgc_; do
    "$program" check kernel device=cuda only=$what >"$folder/out" 2>&1 || {
        grep -v holds "$folder/out" | head -20
        exit 1
    }
done

for device in cpu cuda; do
    "$program" bench codec device=$device side=64 runs=1 residual=true --json |
        tr '{' '\n' | sed -n 's/"codec": "\([a-z0-9]*\)".*"ratio": \([^,]*\), "error": \([^,]*\),.*/\1 \2 \3/p' \
        | grep -v powersgd >"$folder/$device"
done
[ "$(wc -l <"$folder/cpu")" -ge 16 ] || {
    echo "too few codecs: $(cat "$folder/cpu")"
    exit 1
}
diff "$folder/cpu" "$folder/cuda"
"$program" bench codec device=cuda side=64 runs=1 only=3lc --json \
    >"$folder/host"
! grep -q '"encode_gbytes_per_s": 0,' "$folder/host" || {
    echo "3lc was not timed: $(cat "$folder/host")"
    exit 1
}
