# Kernels for GPUs without a GPU: the plug-in's files, built for a device that is emulated
# on the host. Those of a GPT and of images = ref; steps = the CPU's, twice = the same bits.
# deadline: 900
set -eu
program=${TUTTI_BUILD:-build}/emulated/tutti
if [ ! -x "$program" ]; then
    echo 'the emulated device is part of the plain build alone'
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder/state" XDG_CACHE_HOME="$folder/cache"

die() {
    echo "$1"
    exit 1
}

for what in norm_grad layer_norm matmul cross_entropy embedding rotary adamw \
    sum_squares clip gelu stripe weave load quantize onebit int8 sign_ twobit \
    ternary natural narrow widen randomk \
    conv_relu conv_grad_x_add conv_grad_w relu_grad_bias max_pool \
    batch_norm_grad adaptive correct; do
    "$program" check kernel device=cuda only=$what >"$folder/out" 2>&1 ||
        die "$(grep -v holds "$folder/out" | head -20)"
done

# A vocabulary that ranks share stays on the device.
for precision in bf16 fp16 fp32; do
    "$program" plan examples/gpt-tiny.yaml device=cuda mesh.tensor=2 \
        precision=$precision --steps >"$folder/out"
    grep -q ' cuda\.correct_join ' "$folder/out" ||
        die "$precision: no correct_join"
    ! grep ' ref\.' "$folder/out" || die "$precision: on the host"
done

number() {
    sed -n 's/.*, *"'"$2"'": *\([-+0-9.e]*\).*/\1/p' "$1"
}
# The last has more rows than a device has warps, so that a warp does several.
while read -r model settings; do
    for device in cpu cuda; do
        # shellcheck disable=SC2086
        "$program" bench step examples/$model-tiny.yaml device=$device warmup=0 \
            steps=1 $settings --json >"$folder/$device"
    done
    awk -v a="$(number "$folder/cpu" loss)" -v b="$(number "$folder/cuda" loss)" \
        -v c="$(number "$folder/cpu" norm)" -v d="$(number "$folder/cuda" norm)" \
        'function apart(x, y) { return (x > y ? x - y : y - x) / x }
         BEGIN { exit !(a > 0 && c > 0 && apart(a, b) < 1e-5 && apart(c, d) < 1e-4) }' ||
        die "$model: $(cat "$folder/cpu" "$folder/cuda")"
    # Whatever a device does in one kernel, a step is as much work.
    awk -v a="$(number "$folder/cpu" gflops)" -v b="$(number "$folder/cuda" gflops)" \
        -v c="$(number "$folder/cpu" ms_per_step)" \
        -v d="$(number "$folder/cuda" ms_per_step)" \
        'BEGIN { x = a * c; y = b * d; e = x > y ? x - y : y - x
                 exit !(x > 0 && e < 1e-6 * x) }' ||
        die "$model: other FLOPs: $(cat "$folder/cpu" "$folder/cuda")"
done <<LIST
gpt
llama
vit
resnet
vgg model=vgg11
gpt model.layers=1 model.width=16 model.heads=2 model.vocab=40 model.context=64 seq=64 batch=9
LIST

# Rows of 67 logits have a gap after them in 16 bits, and are no whole pieces; biases
# are of 32 bits, and zero before the first step, so it takes a second. A gradient's
# numbers are rounded to 8 bits, so no norm is further off than that; later steps would
# multiply what roundings change. (Processors differ among themselves by 2e-4 here.)
for device in cpu cuda; do
    "$program" bench step examples/gpt-tiny.yaml device=$device precision=bf16 \
        model.vocab=67 warmup=0 steps=2 --json >"$folder/$device"
done
awk -v a="$(number "$folder/cpu" loss)" -v b="$(number "$folder/cuda" loss)" \
    -v c="$(number "$folder/cpu" norm)" -v d="$(number "$folder/cuda" norm)" \
    'function apart(x, y) { return (x > y ? x - y : y - x) / x }
     BEGIN { exit !(a > 0 && c > 0 && apart(a, b) < 1e-4 && apart(c, d) < 1 / 256) }' ||
    die "67 logits: $(cat "$folder/cpu" "$folder/cuda")"

# What is offloaded comes back in every bit, though copies end as late as they may.
for what in none all; do
    "$program" bench step examples/gpt-tiny.yaml device=cuda precision=bf16 batch=2 \
        accumulate=2 offload=$what warmup=0 steps=2 --json >"$folder/$what"
done
for what in loss norm; do
    [ "$(number "$folder/none" $what)" = "$(number "$folder/all" $what)" ] ||
        die "offloaded: $(cat "$folder/none" "$folder/all")"
done
[ "$(number "$folder/all" peak_bytes_used)" -lt \
    "$(number "$folder/none" peak_bytes_used)" ] || die "nothing was offloaded"
"$program" verify examples/gpt-tiny.yaml device=cuda precision=fp32 batch=4 \
    model.layers=1 zero=2 offload=all loss.chunks=3 -n 2 \
    >"$folder/out" 2>&1 || die "2 ranks: $(cat "$folder/out")"

"$program" bench step examples/gpt-tiny.yaml device=cuda loss.chunks=5 warmup=0 \
    steps=1 --json >"$folder/chunks"
"$program" bench step examples/gpt-tiny.yaml device=cuda warmup=0 steps=1 --json \
    >"$folder/whole"
awk -v a="$(number "$folder/whole" norm)" -v b="$(number "$folder/chunks" norm)" \
    'BEGIN { exit !(a > 0 && (a > b ? a - b : b - a) < 1e-5 * a) }' ||
    die "in chunks: $(cat "$folder/whole" "$folder/chunks")"

for n in 1 2; do
    "$program" bench step examples/gpt-tiny.yaml device=cuda precision=bf16 batch=2 \
        model.layers=1 warmup=0 steps=2 --json >"$folder/run-$n"
done
for what in loss norm; do
    [ "$(number "$folder/run-1" $what)" = "$(number "$folder/run-2" $what)" ] ||
        die "two runs differ: $(cat "$folder/run-1" "$folder/run-2")"
done
