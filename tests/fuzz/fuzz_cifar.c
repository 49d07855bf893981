// fuzz_cifar - records of either version.

#include "fuzz/source.h"

FUZZ(cifar)
{
    tt_fuzz_source("cifar", tt_fuzz_file(data, n, ".bin"), "");
    tt_fuzz_source("cifar", tt_fuzz_file(data, n, ".bin"), "version=10");
}
