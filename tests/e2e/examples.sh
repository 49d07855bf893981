# Every example can be planned, and a small one runs.
# deadline: 240
set -eu
for file in examples/*.yaml; do
    "$TUTTI" plan "$file" | grep -q '^  peak ' || {
        echo "$file cannot be planned"
        exit 1
    }
done
loss=$("$TUTTI" bench step examples/lenet.yaml batch=8 threads=1 steps=1 \
    warmup=0 --json | sed 's/.*"loss": *\([0-9.e-]*\).*/\1/')
if ! awk "BEGIN { exit !($loss > 2 && $loss < 2.6) }"; then
    echo "the first loss of ten classes is $loss, not about 2.3"
    exit 1
fi
