// fuzz_tokens - token shards, with and without a header; the same bytes as meta.pkl.

#include "fuzz/source.h"

FUZZ(tokens)
{
    char meta[256];
    const char *path = tt_fuzz_file(data, n, ".bin");
    tt_fuzz_beside(path, "meta.pkl", data, n, meta);
    tt_fuzz_source("tokens", path, "");
    (void)unlink(meta);
}
