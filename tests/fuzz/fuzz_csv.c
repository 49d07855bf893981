// fuzz_csv - tables, with the label wherever it is found and in the first column.

#include "fuzz/source.h"

FUZZ(csv)
{
    tt_fuzz_source("csv", tt_fuzz_file(data, n, ".csv"), "");
    tt_fuzz_source("csv", tt_fuzz_file(data, n, ".csv"),
                   "label=0 header=no separator=semicolon shape=2,2");
}
