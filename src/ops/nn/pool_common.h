// pool_common - what the pooling operators share.

#ifndef TT_OPS_NN_POOL_COMMON_H
#define TT_OPS_NN_POOL_COMMON_H

#include "ops/nn/pool.h"

// Checks x; `y` becomes the shape of the windows' output.
tt_status tt__pool_infer(const char *op, const tt_pool_params *p,
                         const tt_shape *x, tt_shape *y);

// Entries of the kernel.
double tt__pool_volume(const tt_pool_params *p, const tt_shape *x);

// Which operand is x and which are outputs of the window: a letter x or y for
// each input, and for each output.
typedef struct tt__pool_roles {
    const char *in, *out;
} tt__pool_roles;

// Signatures along batch, channels and space; x has a halo along space.
void tt__pool_shard(const tt_op_io *io, const tt__pool_roles *roles,
                    int axis_size, tt_sigs *sigs);

#endif
