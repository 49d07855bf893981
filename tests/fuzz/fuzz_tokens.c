// fuzz_tokens - token shards, with and without a header.

#include "fuzz/source.h"

FUZZ(tokens)
{
    tt_fuzz_source("tokens", tt_fuzz_file(data, n, ".bin"), "");
}
