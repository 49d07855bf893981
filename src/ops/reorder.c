// reorder - the same value in another form (strides, a library's layout). Only
// lowering makes these; in a graph it is the identity.
//
//   flops   none: data movement

#include "graph/build.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "reorder", 1, 1));
    tt_infer_add(io, io->in[0].dtype, &io->in[0].shape);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    (void)node;
    if (need[0])
        din[0] = dout[0];
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, 1, TT_SUM, sigs);
    tt_shard_partial(io, 1, TT_MAX, sigs);
}

static const tt_sample samples[] = {
    {"", {"f a:3 b:5"}, 0},
    {"", {"i<9 a:2.c:3 b:5"}, 0},
    {0},
};

const tt_op_def tt_op_reorder = {
    .name = "reorder",
    .doc = "The same value in another form.",
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = tt_cost_moved,
    .samples = samples,
};
