// swiglu - silu(a) * b, the gated unit of Llama-style models.
//
//   flops   5 per element, the gradient 12 (exp counts 1)

#include "ops/activation.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

static tt_op_infer_fn infer, infer_grad;
static tt_op_grad_fn grad;
static tt_op_shard_fn shard, shard_grad;
static tt_op_cost_fn cost, cost_grad;

static tt_status infer(tt_op_io *io)
{
    return tt_infer_elementwise(io, "swiglu", 2);
}

static tt_status infer_grad(tt_op_io *io)
{
    TT_TRY(tt_infer_elementwise(io, "swiglu_grad", 3));
    tt_infer_add(io, io->in[1].dtype, &io->in[1].shape);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    tt_val d[TT_MAX_OUT];
    tt_call(b, &tt_op_swiglu_grad, NULL,
            (tt_val[]){node->in[0], node->in[1], dout[0]}, 3, d);
    for (int i = 0; i < 2; i++)
        if (need[i])
            din[i] = d[i];
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, 2, TT_SUM, sigs);
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, 4, TT_SUM, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_elementwise(io, 0, 5, cost_out);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_elementwise(io, 0, 12, cost_out);
}

static const tt_sample samples[] = {
    {"", {"f a:3 b:5", "f a:3 b:5"}, 75},
    {"", {"f a:2 b:3.c:2", "f a:2 b:3.c:2"}, 60},
    {0},
};

static const tt_sample samples_grad[] = {
    {"", {"f a:3 b:5", "f a:3 b:5", "f a:3 b:5"}, 180},
    {"", {"f a:2 b:3.c:2", "f a:2 b:3.c:2", "f a:2 b:3.c:2"}, 144},
    {0},
};

const tt_op_def tt_op_swiglu = {
    .name = "swiglu",
    .doc = "silu(a) * b.",
    .flags = TT_OP_ELEMENTWISE | TT_OP_INPLACE,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_swiglu_grad = {
    .name = "swiglu_grad",
    .doc = "The gradients of swiglu.",
    .flags = TT_OP_ELEMENTWISE | TT_OP_INPLACE,
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};
