// factors - the options of the pass as a struct.

#ifndef TT_PASS_FACTORS_H
#define TT_PASS_FACTORS_H

#include <stdint.h>

typedef struct tt_factors_params {
    int64_t micro_batches; // of a step: factors are sent for each
} tt_factors_params;

#endif
