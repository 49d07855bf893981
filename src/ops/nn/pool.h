// pool - pooling over sliding windows, and to a given number of windows.

#ifndef TT_OPS_NN_POOL_H
#define TT_OPS_NN_POOL_H

#include "graph/build.h"
#include "ops/shape/slide.h"

// Of max_pool, avg_pool and their gradients. avg_pool has no dilation.
typedef struct tt_pool_params {
    tt_slide_params slide;
    bool count_pad; // avg_pool: padding counts as zeros; else it does not count
} tt_pool_params;

// A window that slides on one rank; see tt_slide_of.
void tt_pool_slides(const tt_pool_params *p, const tt_local *x,
                    const tt_local *y, tt_slide slide_out[TT_MAX_SPATIAL]);

typedef struct tt_adaptive_pool_params {
    tt_i64s out; // windows per spatial dimension, or one number for all
} tt_adaptive_pool_params;

// Window i of `n_windows` over n entries: [lo, hi), as PyTorch has it.
static inline int64_t tt_adaptive_lo(int64_t i, int64_t n, int64_t n_windows)
{
    return i * n / n_windows;
}
static inline int64_t tt_adaptive_hi(int64_t i, int64_t n, int64_t n_windows)
{
    return ((i + 1) * n + n_windows - 1) / n_windows;
}

#endif
