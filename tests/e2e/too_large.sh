# A model that does not fit is refused before anything runs, with the table and
# what would fit.
# deadline: 120
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ "$(awk '/MemTotal/ {print int($2 / 1048576)}' /proc/meminfo)" -gt 300 ]; then
    echo "this machine holds it"
    exit 77
fi

# refused WORD... - exit status 2, the table on stderr, nothing on stdout.
refused() {
    status=0
    "$TUTTI" "$@" >"$folder/out" 2>"$folder/err" || status=$?
    if [ $status -ne 2 ] || [ -s "$folder/out" ] ||
        ! head -n 1 "$folder/err" | grep -q 'needs 3.*GB of memory, but' ||
        ! grep -q '^  optimiser state *12,460,889,600 ' "$folder/err" ||
        ! grep -q '^  peak ' "$folder/err" ||
        ! grep -q 'makes it fit\|what would fit' "$folder/err" ||
        ! tail -n 1 "$folder/err" | grep -q 'more ranks.*zero=3.*offload='; then
        echo "tutti $*: exit status $status"
        cat "$folder/out" "$folder/err"
        exit 1
    fi
}

refused plan model=gpt2-1558m batch=64 seq=1024
refused bench step model=gpt2-1558m batch=64 seq=1024
