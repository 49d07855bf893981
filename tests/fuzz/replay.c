// replay - runs a corpus through a reader, within a bound of memory.

#include "base/alloc.h"
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXTRA = 64 << 20 };

static uint8_t *read_all(const char *path, size_t *n_out)
{
    FILE *file = fopen(path, "rb");
    CHECK_MSG(file != NULL, "cannot open %s", path);
    CHECK(fseek(file, 0, SEEK_END) == 0);
    const long n = ftell(file);
    CHECK(n >= 0);
    rewind(file);
    uint8_t *data = malloc((size_t)n + 1);
    CHECK(data != NULL);
    CHECK(fread(data, 1, (size_t)n, file) == (size_t)n);
    fclose(file);
    *n_out = (size_t)n;
    return data;
}

static void replay_one(const char *path, tt_fuzz_fn *fuzz)
{
    size_t n = 0;
    uint8_t *data = read_all(path, &n);
    const int64_t before = tt_alloc_bytes();
    tt_alloc_peak_reset();
    fuzz(data, n);
    const int64_t held = tt_alloc_peak() - before;
    // Guards between the blocks of arenas are as large as these at most.
    CHECK_MSG(held <= (1 + TT_TEST_SANITIZED) * ((int64_t)n + EXTRA),
              "%s: held %lld bytes", path, (long long)held);
    CHECK_MSG(tt_alloc_bytes() == before, "%s: leaves %lld bytes", path,
              (long long)(tt_alloc_bytes() - before));
    free(data);
}

void tt_fuzz_replay(const char *name, tt_fuzz_fn *fuzz)
{
    char folder[256], path[1024];
    int n = 0;
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", name);
    DIR *dir = opendir(folder);
    CHECK_MSG(dir != NULL, "there is no %s", folder);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        replay_one(path, fuzz);
        n++;
    }
    closedir(dir);
    CHECK_MSG(n > 0, "%s is empty", folder);
}
