// sigmoid - 1 / (1 + exp(-x)); its gradient needs only the result.
//
//   flops   4 per element (exp counts 1), the gradient 3

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
    return tt_infer_elementwise(io, "sigmoid", 1);
}

static tt_status infer_grad(tt_op_io *io)
{
    return tt_infer_elementwise(io, "sigmoid_grad", 2);
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    if (need[0])
        din[0] = tt_call(b, &tt_op_sigmoid_grad, NULL,
                         (tt_val[]){node->out[0], dout[0]}, 2, NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, 2, TT_SUM, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_elementwise(io, 0, 4, cost_out);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_elementwise(io, 0, 3, cost_out);
}

static const tt_sample samples[] = {
    {"", {"f a:3 b:5"}, 60},
    {"", {"f a:2 b:3.c:2"}, 48},
    {0},
};

static const tt_sample samples_grad[] = {
    {"", {"f a:3 b:5", "f a:3 b:5"}, 45},
    {"", {"f a:2 b:3.c:2", "f a:2 b:3.c:2"}, 36},
    {0},
};

const tt_op_def tt_op_sigmoid = {
    .name = "sigmoid",
    .doc = "1 / (1 + exp(-x)).",
    .flags = TT_OP_ELEMENTWISE | TT_OP_INPLACE,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_sigmoid_grad = {
    .name = "sigmoid_grad",
    .doc = "The gradient of sigmoid.",
    .flags = TT_OP_ELEMENTWISE | TT_OP_INPLACE,
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};
