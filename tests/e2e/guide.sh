# docs/parallelism.md: every combination of settings in its first column trains.
# deadline: 300
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
here=$(pwd)
export XDG_STATE_HOME="$folder/state" XDG_CACHE_HOME="$folder/cache" OMP_NUM_THREADS=1
cd "$folder" || exit 1

n=0
sed -n 's/^| `\([^`]*=[^`]*\)`.*/\1/p; s/^    tutti train FILE \(-n.*mesh.*\)/\1/p' \
    "$here/docs/parallelism.md" | sed 's/  .*//' >rows
while read -r words; do
    case $words in
    offload=*) continue ;; # wants a GPU
    *mesh.expert*) file=moe-tiny ;;
    *mesh.space*) file=resnet-tiny ;;
    *) file=gpt-tiny ;;
    esac
    # shellcheck disable=SC2086
    "$tutti" train "$here/examples/$file.yaml" run=run --fresh train.steps=1 \
        threads=1 $words >out 2>&1 || {
        echo "$words: $(tail -5 out)"
        exit 1
    }
    n=$((n + 1))
done <rows
[ $n -ge 15 ] || {
    echo "only $n rows were found"
    exit 1
}
