// scaling - the factor on the loss of training in f16.

#ifndef TT_OPS_SCALING_H
#define TT_OPS_SCALING_H

#include "graph/build.h"

typedef struct tt_loss_scale_params {
    int64_t growth; // good steps before the factor is doubled; 0: never
} tt_loss_scale_params;

// Inputs: both states, the loss as a sum, the norm of the gradient.
enum { TT_LS_SCALE, TT_LS_GOOD, TT_LS_LOSS, TT_LS_NORM, TT_LS_N };

// It stays within these: powers of two, so that scaling rounds nothing.
#define TT_LOSS_SCALE_LEAST 0x1p-14
#define TT_LOSS_SCALE_MOST 0x1p24

// Makes the states' new versions; returns that of the factor.
tt_val tt_loss_scale(tt_builder *b, const tt_loss_scale_params *params,
                     const tt_val in[TT_LS_N]);

#endif
