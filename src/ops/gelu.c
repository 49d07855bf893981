// gelu - x times the normal distribution function, exact or by tanh.
//
//   erf    x/2 (1 + erf(x / sqrt 2))
//   tanh   x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
//
//   flops   tanh 9 and 18 per element for the gradient; erf 5 and 11 (tanh, erf
//           and exp count 1)

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
    return tt_infer_elementwise(io, "gelu", 1);
}

static tt_status infer_grad(tt_op_io *io)
{
    return tt_infer_elementwise(io, "gelu_grad", 2);
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    if (need[0])
        din[0] = tt_call(b, &tt_op_gelu_grad, node->params,
                         (tt_val[]){node->in[0], dout[0]}, 2, NULL);
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
    const tt_gelu_params *p = io->params;
    tt_cost_elementwise(io, 0, p->form == TT_GELU_TANH ? 9 : 5, cost_out);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_gelu_params *p = io->params;
    tt_cost_elementwise(io, 0, p->form == TT_GELU_TANH ? 18 : 11, cost_out);
}

static const tt_opt options[] = {
    {"form", "tanh", "the tanh approximation, or exact", TT_OPT_CHOICE,
     .offset = offsetof(tt_gelu_params, form), .choices = "tanh|erf"},
    {0},
};

static const tt_sample samples[] = {
    {"form=tanh", {"f a:3 b:5"}, 135},
    {"form=erf", {"f a:2 b:3.c:2"}, 60},
    {0},
};

static const tt_sample samples_grad[] = {
    {"form=tanh", {"f a:3 b:5", "f a:3 b:5"}, 270},
    {"form=erf", {"f a:2 b:3.c:2", "f a:2 b:3.c:2"}, 132},
    {0},
};

const tt_op_def tt_op_gelu = {
    .name = "gelu",
    .doc = "The Gaussian error linear unit.",
    .options = options,
    .params_bytes = sizeof(tt_gelu_params),
    .flags = TT_OP_ELEMENTWISE | TT_OP_INPLACE,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_gelu_grad = {
    .name = "gelu_grad",
    .doc = "The gradient of gelu.",
    .options = options,
    .params_bytes = sizeof(tt_gelu_params),
    .flags = TT_OP_ELEMENTWISE | TT_OP_INPLACE,
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};
