# Low precisions on the emulated device: kernels of 8 bits and of loss scaling = ref; fp16,
# fp8 and weights without masters compute what bf16 computes, with no kernel of ref.
# deadline: 600
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
number() {
    sed -n 's/.*, *"'"$2"'": *\([-+0-9.e]*\).*/\1/p' "$1"
}

for what in fp8_pack fp8_pack_grad fp8_units loss_scale largest matmul_fp8; do
    "$program" check kernel device=cuda only=$what >"$folder/out" 2>&1 ||
        die "$(grep -v holds "$folder/out" | head -20)"
done
for precision in bf16 fp16 fp8 none; do
    set -- precision=$precision
    [ $precision != none ] || set -- precision=bf16 optim.master=false
    set -- examples/gpt-tiny.yaml device=cuda "$@" batch=4 accumulate=2 model.layers=1
    "$program" plan "$@" --steps >"$folder/plan"
    ! grep -q ' ref\.' "$folder/plan" || die "$precision: $(grep ' ref\.' "$folder/plan")"
    "$program" bench step "$@" warmup=0 steps=2 --json >"$folder/$precision"
    awk -v a="$(number "$folder/bf16" loss)" -v b="$(number "$folder/$precision" loss)" \
        'BEGIN { d = a - b; exit !(a > 0 && (d < 0 ? -d : d) < 0.005 * a) }' ||
        die "$precision: $(cat "$folder/bf16" "$folder/$precision")"
done
