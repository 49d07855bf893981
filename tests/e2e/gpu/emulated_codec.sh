# Codecs on the emulated device: codes of every length are the reference's, what is sent is
# what the CPU sends, in bytes and in error; all are timed, and none runs on the host.
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

for what in topk_encode topk_sum nonzero_ threshold_ dgc_ qsgd_ threelc_ \
    replica_seed; do
    "$program" check kernel device=cuda only=$what >"$folder/out" 2>&1 || {
        grep -v holds "$folder/out" | head -20
        exit 1
    }
done

for device in cpu cuda; do
    "$program" bench codec device=$device side=64 runs=1 residual=true --json \
        >"$folder/$device.json"
    tr '{' '\n' <"$folder/$device.json" |
        sed -n 's/"codec": "\([a-z0-9]*\)".*"ratio": \([^,]*\), "error": \([^,]*\),.*/\1 \2 \3/p' \
        | grep -v powersgd >"$folder/$device"
done
[ "$(wc -l <"$folder/cpu")" -ge 16 ] || {
    echo "too few codecs: $(cat "$folder/cpu")"
    exit 1
}
diff "$folder/cpu" "$folder/cuda"
! tr '{' '\n' <"$folder/cuda.json" | grep -v '"none"\|"factors"' |
    grep '_gbytes_per_s": 0,' || {
    echo "not timed"
    exit 1
}

# No step of a coded exchange makes the device wait for the host.
for codec in topk threshold qsgd 3lc; do
    "$program" plan examples/gpt-tiny.yaml device=cuda precision=fp32 -n 2 \
        exchange.codec=$codec --steps >"$folder/out"
    grep -q " cuda\.[a-z]*_encode " "$folder/out" &&
        grep -q " cuda\.[a-z]*_sum " "$folder/out" || {
        echo "$codec: not on the device"
        exit 1
    }
    ! grep ' ref\.' "$folder/out" || {
        echo "$codec: on the host"
        exit 1
    }
done
