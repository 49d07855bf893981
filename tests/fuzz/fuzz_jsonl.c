// fuzz_jsonl - lines of JSON as documents, by characters.

#include "fuzz/source.h"

FUZZ(jsonl)
{
    tt_fuzz_source("text", tt_fuzz_file(data, n, ".jsonl"), "");
    tt_fuzz_source("text", tt_fuzz_file(data, n, ".txt"), "field=a.b");
}
