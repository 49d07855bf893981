# An installed copy is enough to compile and run every program in examples/c,
# and uninstalling leaves nothing behind.
# deadline: 180
set -eu
if [ "$TUTTI_BUILD" != build ]; then
    echo "only the plain build is installed"
    exit 77
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset MAKEFLAGS MAKELEVEL

make -s install PREFIX="$root" >/dev/null
unset LD_LIBRARY_PATH # programs know where the library is
export PKG_CONFIG_PATH="$root/lib/pkgconfig"
cp -r examples/c "$root/examples"
cd "$root/examples"
flags='-Wall -Wextra -Wpedantic -Werror'

# runs PROGRAM TEXT - the program succeeds and prints the text.
runs() { # PROGRAM[ ARGUMENT] TEXT
    # shellcheck disable=SC2086
    if ! ./$1 >out 2>&1 || ! grep -q "$2" out; then
        echo "$1 did not print: $2"
        cat out
        exit 1
    fi
}

for static in '' 1; do
    make -s STATIC=$static CFLAGS="$flags"
    for program in train_mlp own_model own_data write_text train_ranks; do
        linked=$(ldd "./$program" | grep -c libtutti || true)
        if [ "$linked" != "$([ -n "$static" ] && echo 0 || echo 1)" ]; then
            echo "$program: STATIC=$static is linked the other way"
            exit 1
        fi
    done
    runs train_mlp '64 of 64 right'
    runs train_mlp 'layers.0.weight .*equal'
    runs own_model 'checks of the laws, 0 failed'
    runs own_data '300 steps, validation accuracy'
    runs write_text 'after "the c" comes "a"'
    runs 'train_ranks 2' 'step 60 on 2 ranks: .* 64 of 64 right'
    make -s clean
done

# The header is C++ too (where there is a compiler), and only its functions are
# exported.
printf '#include <tutti/tutti.h>\nint main() { return !tutti_version(); }\n' >h.cc
if command -v g++ >/dev/null; then
    # shellcheck disable=SC2046,SC2086
    g++ $flags -std=c++11 -o h h.cc $(pkg-config --cflags --libs tutti)
    ./h
fi
others=$(nm -D --defined-only "$root/lib/libtutti.so" | grep -v ' [TA] tutti_' ||
    true)
if [ -n "$others" ]; then
    echo "exported besides tutti_*: $others"
    exit 1
fi
cd - >/dev/null
rm -r "$root/examples"
"$root/bin/tutti" --help >/dev/null
test -s "$root/share/man/man1/tutti.1"
bash -n "$root/share/bash-completion/completions/tutti"
test -s "$root/share/zsh/site-functions/_tutti"
test -s "$root/share/fish/vendor_completions.d/tutti.fish"

make -s uninstall PREFIX="$root"
left=$(find "$root" -type f -o -type l)
if [ -n "$left" ]; then
    echo "left after uninstall: $left"
    exit 1
fi
