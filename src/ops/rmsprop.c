// rmsprop - a rate per element by a running mean of squared gradients.
//
//   g += weight_decay * w
//   s  = alpha * s + (1 - alpha) * g * g
//   w -= lr * g / (sqrt(s) + eps)
//
//   flops   12 per element

#include "ops/cost.h"
#include "ops/ops.h"
#include "ops/optim.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    return tt_optim_infer(io, "rmsprop", 1, 0);
}

static const tt_opt options[] = {
    {"weight_decay", "0", "how strongly weights are drawn to 0", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, weight_decay), .min = 0, .max = 1e6},
    {"alpha", "0.99", "how much of the mean of squares stays", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, alpha), .min = 0, .max = TT_BELOW_1},
    {"eps", "1e-8", "added to the divisor", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, eps), .min = 0, .max = 1e6},
    {"low", "none", "the dtype of a copy for the kernels; set by the precision",
     TT_OPT_CHOICE, .offset = offsetof(tt_optim_params, low),
     .choices = "none|bf16|f16"},
    {0},
};

static const tt_sample samples[] = {
    {"",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=1", "u=0", "m+ a:3 b:5"},
     15 * 12},
    {"alpha=0.9 weight_decay=0.1 low=bf16",
     {"m a:7.c:2", "m a:7.c:2", "m=0.1", "m=2", "I=4", "u=0", "m+ a:7.c:2"},
     14 * 12},
    {"",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=2", "u=1", "m+ a:3 b:5"},
     15 * 12},
    {0},
};

const tt_op_def tt_op_rmsprop = {
    .name = "rmsprop",
    .doc = "A step of RMSProp.",
    .options = options,
    .params_bytes = sizeof(tt_optim_params),
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer,
    .shard = tt_shard_elementwise,
    .cost = tt_cost_each,
    .flops_each = 12,
    .samples = samples,
};
