# The table of compatible settings is what the program does: a few of its pairs, COMPAT=60
# for more.
# deadline: 120
set -eu
command -v python3 >/dev/null || {
    echo "python3 is not installed"
    exit 77
}
TUTTI="$TUTTI" tools/compat --replay "${COMPAT:-6}"
