// sgd - w -= lr * (g + weight_decay * w).
//
//   flops   5 per element

#include "ops/cost.h"
#include "ops/ops.h"
#include "ops/optim.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    return tt_optim_infer(io, "sgd", 0, 0);
}

static const tt_opt options[] = {
    {"weight_decay", "0", "how strongly weights are drawn to 0", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, weight_decay), .min = 0, .max = 1e6},
    {"low", "none", "the dtype of a copy for the kernels; set by the precision",
     TT_OPT_CHOICE, .offset = offsetof(tt_optim_params, low),
     .choices = "none|bf16|f16"},
    {0},
};

static const tt_sample samples[] = {
    {"", {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=1", "u=0"}, 15 * 5},
    {"weight_decay=0.1 low=bf16",
     {"m a:7.c:2", "m a:7.c:2", "m=0.1", "m=2", "I=4", "u=0"},
     14 * 5},
    {"weight_decay=0.1",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=4", "u=1"},
     15 * 5},
    {0},
};

const tt_op_def tt_op_sgd = {
    .name = "sgd",
    .doc = "A step of stochastic gradient descent.",
    .options = options,
    .params_bytes = sizeof(tt_optim_params),
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer,
    .shard = tt_shard_elementwise,
    .cost = tt_cost_each,
    .flops_each = 5,
    .samples = samples,
};
