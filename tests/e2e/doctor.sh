# The doctor says what is there, works when hardly anything is, and its exit
# status tells whether training can work.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
case $TUTTI in
/*) program=$TUTTI ;;
*) program=$PWD/$TUTTI ;;
esac

emulated=$PWD/${TUTTI_BUILD:-build}/emulated/tutti

die() {
    echo "$1"
    exit 1
}

cd "$folder"
"$program" doctor >out || die "this machine cannot train: $(cat out)"
for name in processor cores instructions kernels memory disk writing limits \
    training OpenMP libraries GPU MPI; do
    grep -qE "^(ok|note) +$name " out || die "the doctor says nothing about $name"
done
[ "$(ls)" = out ] || die "the doctor left something behind: $(ls)"

# A GPU that can be used is tried.
if [ -x "$emulated" ]; then
    "$emulated" doctor >out || die "no training beside a GPU: $(cat out)"
    grep -qE '^ok +GPU +emulated, .*B free: a step of a small network in ' out ||
        die "the GPU was not tried: $(cat out)"
fi

# Without an environment everything optional is absent, and named.
status=0
env -i "$program" doctor >out 2>err || status=$?
[ $status -eq 0 ] || die 'exit status without an environment'
grep -q 'apt-get install -y openmpi-bin' out || die 'how to install MPI'
grep -q 'apt-get install -y bible-kjv' out || die 'how to install the text'
[ ! -s err ] || die "errors: $(cat err)"

# A folder that cannot be written is a reason to say no.
status=0
(cd /proc && "$program" doctor) >out 2>err || status=$?
[ $status -eq 1 ] || die "exit status $status in a folder that is read-only"
grep -q '^MISSING  *writing ' out || die 'the folder is read-only'
status=0
mkdir gone
(cd gone && rmdir ../gone && "$program" doctor) >out 2>err || status=$?
[ $status -eq 1 ] || die "exit status $status in a folder that is gone"

status=0
"$program" doctor lr=1 >out 2>err || status=$?
[ $status -eq 2 ] || die 'a setting that the doctor does not know'

command -v python3 >/dev/null || exit 0
"$program" doctor --json >out
python3 - out <<'P' || die 'the JSON of the doctor'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["ok"] is True
for check in report["checks"]:
    assert check["status"] in ("ok", "note"), check
    assert check["name"] and check["value"], check
P
