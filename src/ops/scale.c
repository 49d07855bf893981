// scale - x times a constant.
//
//   flops   1 per element

#include "ops/arith.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_scale_params *p = node->params;
    if (need[0])
        din[0] = tt_scale(b, dout[0], p->by);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, 1, TT_SUM, sigs);
}

tt_val tt_scale(tt_builder *b, tt_val x, double by)
{
    return tt_call(b, &tt_op_scale, &(tt_scale_params){.by = by}, &x, 1, NULL);
}

static const tt_opt options[] = {
    {"by", "1", "the constant", TT_OPT_F64,
     .offset = offsetof(tt_scale_params, by)},
    {0},
};

static const tt_sample samples[] = {
    {"by=0.125", {"f a:3 b:5"}, 15},
    {"by=-3", {"f"}, 1},
    {0},
};

const tt_op_def tt_op_scale = {
    .name = "scale",
    .doc = "A value times a constant.",
    .options = options,
    .params_bytes = sizeof(tt_scale_params),
    .flags = TT_OP_ELEMENTWISE | TT_OP_INPLACE,
    .infer = tt_infer_unary,
    .grad = grad,
    .shard = shard,
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples,
};
