# An installed copy is enough to compile and run every program in examples/c,
# and uninstalling leaves nothing behind.
# deadline: 180
set -eu
if [ "$TUTTI_BUILD" != build ]; then
    echo "only the plain build is installed"
    exit 77
fi
if [ ! -d examples/c ]; then
    echo "there is no examples/c"
    exit 77
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset MAKEFLAGS MAKELEVEL

make -s install PREFIX="$root"
export PKG_CONFIG_PATH="$root/lib/pkgconfig" LD_LIBRARY_PATH="$root/lib"
for source in examples/c/*.c; do
    program=$root/$(basename "$source" .c)
    # shellcheck disable=SC2046
    gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -o "$program" "$source" \
        $(pkg-config --cflags --libs tutti) -lm
    "$program"
    rm "$program"
done
"$root/bin/tutti" --help >/dev/null
test -s "$root/share/man/man1/tutti.1"

make -s uninstall PREFIX="$root"
left=$(find "$root" -type f -o -type l)
if [ -n "$left" ]; then
    echo "left after uninstall: $left"
    exit 1
fi
