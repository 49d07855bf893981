// copies - the options of the pass as a struct.

#ifndef TT_PASS_COPIES_H
#define TT_PASS_COPIES_H

#include <stdint.h>

typedef struct tt_copies_params {
    int64_t chunks; // of one copy
} tt_copies_params;

#endif
