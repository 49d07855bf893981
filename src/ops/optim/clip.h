// clip - the norm of all gradients, and the factor that limits it.

#ifndef TT_OPS_OPTIM_CLIP_H
#define TT_OPS_OPTIM_CLIP_H

#include "graph/build.h"

typedef struct tt_clip_params {
    double max_norm; // 0: no limit
} tt_clip_params;

tt_val tt_sum_squares(tt_builder *b, tt_val x);
tt_val tt_total(tt_builder *b, const tt_val *x, int n);

// The factor that turns a sum over `count` into a mean and limits its norm;
// *norm_out is the norm before, or TT_NONE without `sumsq`.
tt_val tt_clip(tt_builder *b, tt_val sumsq, tt_val count, double max_norm,
               tt_val *norm_out);

// Inputs of guard: what was asked for, the norm, loss and count as sums, and the
// largest mean loss that is accepted.
enum {
    TT_GUARD_SKIP,
    TT_GUARD_NORM,
    TT_GUARD_LOSS,
    TT_GUARD_COUNT,
    TT_GUARD_LIMIT,
    TT_GUARD_N,
};

// 1 when the update must be left out, else 0.
tt_val tt_guard(tt_builder *b, const tt_val in[TT_GUARD_N]);

#endif
