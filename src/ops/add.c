// add - a + b; b broadcasts to a. The result has the type of a.
//
//   flops   1 per element

#include "ops/arith.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "add", 2, 2));
    TT_TRY(tt_infer_float(io, "add", 0));
    TT_TRY(tt_infer_float(io, "add", 1));
    if (!tt_shape_broadcasts(&io->in[1].shape, &io->in[0].shape))
        return tt_infer_fail_shapes("add", "b does not broadcast to a",
                                    &io->in[0].shape, &io->in[1].shape);
    tt_infer_add(io, io->in[0].dtype, &io->in[0].shape);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    if (need[0])
        din[0] = dout[0];
    if (need[1])
        din[1] = tt_sum_to_like(b, dout[0], node->in[1]);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, 3, TT_SUM, sigs);
}

tt_val tt_add(tt_builder *b, tt_val x, tt_val y)
{
    return tt_call(b, &tt_op_add, NULL, (tt_val[]){x, y}, 2, NULL);
}

static const tt_sample samples[] = {
    {"", {"f a:3 b:5", "f a:3 b:5"}, 15},
    {"", {"f a:2 b:3.d:2 c:5", "f c:5"}, 60},
    {"", {"f a:2 b:3 c:5", "f b:3 c:1"}, 30},
    {"", {"f a:3", "f"}, 3},
    {0},
};

const tt_op_def tt_op_add = {
    .name = "add",
    .doc = "a + b, where b broadcasts to a.",
    .flags = TT_OP_ELEMENTWISE | TT_OP_INPLACE,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples,
};
