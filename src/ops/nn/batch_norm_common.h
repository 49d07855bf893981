// batch_norm_common - what the batch_norm operators share.

#ifndef TT_OPS_NN_BATCH_NORM_COMMON_H
#define TT_OPS_NN_BATCH_NORM_COMMON_H

#include "ops/nn/batch_norm.h"

// x is [batch, channels, space...], in whole groups; input i of `channelwise`
// (a letter each: c, else skipped) has an entry per channel.
tt_status tt__bn_check(const tt_op_io *io, const char *op,
                       const char *channelwise);

// Input i has x's extents and type.
tt_status tt__bn_check_like_x(const tt_op_io *io, const char *op, int i,
                              const char *what);

// Input i has a wide type and the shape of statistics (with a leading dimension of
// two when `pair`).
tt_status tt__bn_check_stats(const tt_op_io *io, const char *op, int i,
                             bool pair);

// The shape of statistics: [channels], or [groups, channels] with the name of
// x's batch for the groups, so that both are split alike.
tt_status tt__bn_stats(const tt_op_io *io, bool pair, tt_shape *shape);

// How each operand is placed when one dimension is cut. A letter for each input,
// then for each output:
//   x  has x's shape             s  statistics      m  two of them
//   c  one entry per channel     r  running statistics, old or new
//   g  gradient per channel
// Where statistics span ranks, `expand` is used; without one the operator runs on
// parts of x, with whole statistics and terms of pairs.
typedef struct tt__bn_roles {
    const char *in, *out;
    tt_op_expand_fn *expand; // or NULL
} tt__bn_roles;

void tt__bn_shard(const tt_op_io *io, const tt__bn_roles *roles, int axis_size,
                  tt_sigs *sigs);

// flops per element of x, and the depth of its statistics.
void tt__bn_cost(const tt_op_io *io, uint32_t shape_only, double per_element,
                 tt_cost *cost);

tt_op_expand_fn tt__bn_expand, tt__bn_expand_grad;

extern const tt_opt tt__bn_options[];

#endif
