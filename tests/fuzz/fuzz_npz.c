// fuzz_npz - arrays in a zip archive: by their names, and the first as tokens.

#include "fuzz/source.h"

FUZZ(npz)
{
    char option[300], path[300];
    const char *file = tt_fuzz_file(data, n, ".npz");
    tt_fuzz_source("npy", file, "");
    snprintf(path, sizeof path, "%s/x.npy", file);
    snprintf(option, sizeof option, "labels=%s/y.npy", file);
    tt_fuzz_source("npy", path, option);
}
