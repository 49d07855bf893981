// fuzz_text - text of any bytes, by characters.

#include "fuzz/source.h"

FUZZ(text)
{
    tt_fuzz_source("text", tt_fuzz_file(data, n, ".txt"), "");
}
