# The demo, much shortened: both models train, one writes, one is measured; and it
# can be run again.
# deadline: 300
set -eu
if ! command -v bible >/dev/null ||
    [ ! -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ]; then
    echo 'the packages of tools/setup demo are not installed'
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder"
case $TUTTI in
/*) ;;
*) TUTTI=$PWD/$TUTTI ;;
esac
export TUTTI
cp -r examples tools "$folder"
cd "$folder"

die() {
    echo "$1"
    cat out
    exit 1
}

for round in first second; do
    DEMO_QUICK=1 tools/demo >out 2>&1 </dev/null ||
        die "the $round demo fails"
    for text in 'In the beginning' accuracy runs/demo/kjv/report.html \
        runs/demo/fashion/report.html runs/demo/systems/index.html 'tutti sample' 'tutti doctor'; do
        grep -q "$text" out || die "the $round demo does not show $text"
    done
    [ -s runs/demo/kjv/report.html ] && [ -s runs/demo/fashion/report.html ] ||
        die "the $round demo leaves no reports"
done
