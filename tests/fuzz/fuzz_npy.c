// fuzz_npy - an array as tokens, as samples and as its own labels.

#include "fuzz/source.h"

FUZZ(npy)
{
    char option[300];
    const char *path = tt_fuzz_file(data, n, ".npy");
    tt_fuzz_source("npy", path, "");
    snprintf(option, sizeof option, "labels=%s", path);
    tt_fuzz_source("npy", path, option);
}
