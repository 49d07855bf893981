# Layouts of every kind compute what one rank computes. LAYOUTS=200 for a longer look:
# first all of the list in tools/layouts, then random ones.
# deadline: 1800
set -eu
TUTTI="$TUTTI" tools/layouts --trials "${LAYOUTS:-12}"
for precision in fp32 bf16; do
    TUTTI="$TUTTI" tools/layouts --trials "${LAYOUTS:-5}" --precision $precision
done
