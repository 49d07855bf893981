# The test runner itself: failures, crashes, hangs and skips are told apart and
# counted, and a child left behind by a test is ended with it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/cases.c" <<'C'
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TEST(passes)
{
    CHECK(1 + 1 == 2);
    CHECK_CLOSE(1.0, 1.0 + 1e-9, 1e-6);
}
TEST(fails)
{
    CHECK_MSG(1 + 1 == 3, "sum is %d", 1 + 1);
}
TEST(is_not_close)
{
    CHECK_CLOSE(NAN, 1.0, 1e-6);
}
TEST(crashes)
{
    abort();
}
TEST_SLOW(hangs, 1)
{
    if (fork() == 0)
        for (;;)
            pause();
    for (;;)
        pause();
}
TEST(skips)
{
    SKIP("no such device");
}
TEST_ALL(is_rare)
{
}
C
mkdir -p "$folder/scripts/inner"
printf 'echo why not\nexit 77\n' >"$folder/scripts/skip.sh"
printf 'echo wrong\nexit 3\n' >"$folder/scripts/fail.sh"
printf 'echo wrong inside\nexit 4\n' >"$folder/scripts/inner/deep.sh"

gcc -std=gnu17 -D_GNU_SOURCE -Isrc -Itests -o "$folder/run" tests/runner.c \
    tests/scripts.c "$folder/cases.c" src/base/status.c src/backend/cpu/isa.c -lm -lpthread
"$folder/run" --scripts "$folder/scripts" >"$folder/out" && {
    echo "failures were not reported in the exit status"
    exit 1
}

has() {
    grep -q "$1" "$folder/out" || {
        echo "the runner did not say: $1"
        cat "$folder/out"
        exit 1
    }
}
has ':fails: exit status 1'
has 'sum is 2'
has ':is_not_close: exit status 1'
has ':crashes: killed by signal 6'
has ':hangs: took more than 1 seconds'
has ':skips: no such device'
has 'skip.sh: why not'
has 'fail.sh: exit status 3'
has 'deep.sh: exit status 4'
test "$(tail -n 1 "$folder/out")" = "1 passed, 6 failed, 2 skipped"
"$folder/run" --all passes rare | grep -qx '2 passed, 0 failed'
