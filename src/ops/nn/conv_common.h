// conv_common - what conv and its gradients share: they are one sum of products,
// over different indices.

#ifndef TT_OPS_NN_CONV_COMMON_H
#define TT_OPS_NN_CONV_COMMON_H

#include "ops/nn/conv.h"

extern const tt_opt tt__conv_options[];

// Extents of w's kernel.
void tt__conv_kernel(const tt_shape *w, int64_t kernel_out[TT_MAX_SPATIAL]);

// Checks x against w; `y` becomes the output's shape.
tt_status tt__conv_infer(const char *op, const tt_conv_params *p,
                         const tt_shape *x, const tt_shape *w, tt_shape *y);

// Which operand is which: a letter each of x, w, y, b (bias) for the inputs,
// and one for the output.
typedef struct tt__conv_roles {
    const char *in;
    char out;
} tt__conv_roles;

// Everything except bytes.
void tt__conv_cost(const tt_op_io *io, const tt__conv_roles *roles,
                   tt_cost *cost);

// A signature for every index of the sum that can be cut: operands with that
// index are split; without it inputs are replicated and the output is partial.
void tt__conv_shard(const tt_op_io *io, const tt__conv_roles *roles,
                    int axis_size, tt_sigs *sigs);

#endif
