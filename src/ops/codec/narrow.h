// narrow - numbers in 16 bits that are added as they are.

#ifndef TT_OPS_CODEC_NARROW_H
#define TT_OPS_CODEC_NARROW_H

#include "graph/build.h"

typedef struct tt_narrow_params {
    int to; // 0: bf16, 1: fp16
    double scale;
    int64_t peers; // replicas whose numbers are added
} tt_narrow_params;

enum { TT_NARROW_X, TT_NARROW_RESIDUAL, TT_NARROW_N };

static inline tt_dtype tt_narrow_dtype(const tt_narrow_params *p)
{
    return p->to == 0 ? TT_BF16 : TT_F16;
}

// The largest number that may be sent, so that the sum is finite.
float tt_narrow_limit(const tt_narrow_params *p);

#endif
