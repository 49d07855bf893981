// fuzz_gzip - packed files.

#include "base/alloc.h"
#include "data/source/gzip.h"
#include "fuzz/fuzz.h"

FUZZ(gzip)
{
    uint8_t *bytes = NULL;
    int64_t count = 0;
    if (tt_gzip_unpack(data, (int64_t)n, &bytes, &count) == TT_OK)
        tt_free(bytes);
}
