# tutti verify: ranks against one. What is the same is said to be, as text and as
# JSON; what cannot be is refused; no checkpoint is left behind.
# deadline: 120
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR="$folder"

die() {
    echo "$1"
    exit 1
}

verify() {
    "$TUTTI" verify "$@" threads=1
}

out=$(verify examples/gpt-tiny.yaml batch=7 zero=3 -n 3) ||
    die "not the same: $out"
for text in 'gpt: 3 ranks against one, within 1e-09' 'each loads the other' \
    'the same'; do
    echo "$out" | grep -q "$text" || die "no \"$text\": $out"
done
out=$(verify examples/lenet-tiny.yaml precision=fp32 -n 2 --json) ||
    die "not the same: $out"
for key in ok loss_rel grad_rel_max worst_tensor norm_rel update_rel_max \
    checkpoint_ok; do
    echo "$out" | grep -q "\"$key\": " || die "no $key: $out"
done
out=$(verify examples/gpt-tiny.yaml precision=bf16 -n 2) || die "bf16: $out"
echo "$out" | grep -q 'from fp32  ' || die "bf16 is not compared with fp32"
# The heading has the limits that are applied.
echo "$out" | grep -q 'within 1e-' && die "bf16 has not the limits of fp32: $out"
echo "$out" | grep -q 'one, loss and norm within 0.05, weights and state within 0.5,' ||
    die "bf16: no limits: $out"
echo "$out" | grep -q 'at most 1.5 times as far from fp32 .* a single tensor 4 times' ||
    die "bf16: no limits: $out"
out=$(verify examples/gpt-tiny.yaml precision=bf16 -n 2 --json) || die "bf16: $out"
for text in '"tolerance": *0.05' '"low_ratio_limit": *1.5' '"low_each_limit": *4'; do
    echo "$out" | grep -q "$text" || die "bf16: no $text: $out"
done
verify examples/gpt-tiny.yaml device=ref precision=fp16 batch=4 model.layers=1 zero=2 -n 2 |
    grep -q 'from fp32 ' || die 'fp16 is not measured against fp32'
# Where the forward pass has jumps, rounding is that of one rank.
for layout in "lenet mesh.space=6 layout.channels=space -n 6" \
    "moe mesh.context=2 mesh.tensor=2 seed=7 -n 4"; do
    # shellcheck disable=SC2086 # words
    out=$(verify examples/${layout%% *}-tiny.yaml ${layout#* } precision=bf16) ||
        die "bf16: $out"
done
if out=$(verify examples/gpt-tiny.yaml batch=2 -n 3 2>&1); then
    die "two samples for three ranks: $out"
fi
# On a GPU in the precision that it has kernels for.
emulated=${TUTTI_BUILD:-build}/emulated/tutti
if [ -x "$emulated" ]; then
    out=$("$emulated" verify examples/gpt-tiny.yaml device=cuda -n 2 verify.steps=1) ||
        die "not the same on a GPU: $out"
    echo "$out" | grep -q 'within 1e-05' || die "not in fp32: $out"
fi
left=$(ls "$folder")
[ -z "$left" ] || die "left behind: $left"

# A code of signs in groups that sum gradients can be compared where sums have one order. Codes of
# activations that nobody sends change nothing.
groups='exchange.group=2 exchange.outer.policy=average exchange.outer.every=2'
# shellcheck disable=SC2086 # words
out=$(verify examples/gpt-tiny.yaml batch=4 exchange.codec=onebit $groups -n 4 2>&1) && die "signs: not refused: $out"
echo "$out" | grep -q 'order of sums; exact=true would do' || die "signs: $out"
# shellcheck disable=SC2086 # words
out=$(verify examples/gpt-tiny.yaml batch=4 exchange.codec=onebit $groups exact=true -n 4) || die "signs, exact: $out"
echo "$out" | grep -q 'same bits' || die "signs, exact: $out"

# Ranks that share a sample hold weights whole, and so does one rank; ranks that cut weights encode parts.
for case in 'llama mesh.context=2 exchange.codec=topk' 'lenet mesh.space=2 exchange.codec=int8' \
    'llama mesh.context=2 exchange.codec=onebit exact=true'; do
    # shellcheck disable=SC2086 # words
    out=$(verify examples/${case%% *}-tiny.yaml ${case#* } exchange.replicas=4 batch=4 -n 4) || die "$case: $out"
done
for case in 'mesh.tensor=2: each rank encodes its part:mesh.tensor=2 exchange.codec=topk' \
    'exact=true would do:mesh.context=2 exchange.codec=sign'; do
    # shellcheck disable=SC2086 # words
    out=$(verify examples/gpt-tiny.yaml batch=4 ${case##*:} -n 4 2>&1) && die "not refused: $case: $out"
    echo "$out" | grep -q "${case%:*}" || die "$case: $out"
done
out=$(verify examples/gpt-tiny.yaml layout.codec=int8 -n 2) || die "layout.codec without layers that are shared: $out"
