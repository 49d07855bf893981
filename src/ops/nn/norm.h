// norm - normalisation of rows (the last dimension): layer norm, RMS norm, and
// the parts they fall into when the row itself is split over ranks.

#ifndef TT_OPS_NN_NORM_H
#define TT_OPS_NN_NORM_H

#include "graph/build.h"

typedef struct tt_norm_params { // layer_norm, rms_norm, rsqrt
    double eps;
} tt_norm_params;

typedef struct tt_layer_norm_grad_w_params {
    bool bias; // whether dbeta is wanted too
} tt_layer_norm_grad_w_params;

typedef struct tt_row_moment_params {
    int64_t power; // 1 or 2
} tt_row_moment_params;

// y = (x - mean) / sqrt(variance + eps) * gamma + beta; beta may be TT_NONE.
tt_val tt_layer_norm(tt_builder *b, tt_val x, tt_val gamma, tt_val beta,
                     double eps);

// Expands of the above over a split row; x, gamma, beta are split, statistics
// replicated.
tt_op_expand_fn tt__norm_expand;        // (x, gamma, [beta]) -> y, [mean,] rstd
tt_op_expand_fn tt__norm_expand_grad_x; // (x, dy, gamma, [mean,] rstd) -> dx

#endif
