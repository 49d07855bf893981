// fuzz_megatron - the index; the ids beside it are always the same 64 bytes.

#include "fuzz/source.h"

FUZZ(megatron)
{
    char bin[256];
    const char *path = tt_fuzz_file(data, n, ".idx");
    tt_fuzz_beside(path, "input.bin",
                   "0123456789abcdef0123456789abcdef"
                   "0123456789abcdef0123456789abcdef",
                   64, bin);
    tt_fuzz_source("megatron", path, "");
    (void)unlink(bin);
}
