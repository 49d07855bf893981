// adam - running means of the gradient and of its square, without their bias
// towards 0; adamw decays weights by themselves, adam through the gradient.
//
//   adam    g += weight_decay * w        adamw   w -= lr * weight_decay * w
//   m  = beta1 * m + (1 - beta1) * g
//   v  = beta2 * v + (1 - beta2) * g * g
//   w -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
//
//   flops   adam 16, adamw 15 per element

#include "ops/cost.h"
#include "ops/ops.h"
#include "ops/optim.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    return tt_optim_infer(io, "adam", 2, 0);
}

static tt_status infer_w(tt_op_io *io)
{
    return tt_optim_infer(io, "adamw", 2, 0);
}

static const tt_opt options[] = {
    {"weight_decay", "0", "how strongly weights are drawn to 0", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, weight_decay), .min = 0, .max = 1e6},
    {"beta1", "0.9", "how much of the mean gradient stays", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, beta1), .min = 0, .max = TT_BELOW_1},
    {"beta2", "0.999", "how much of the mean of squares stays", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, beta2), .min = 0, .max = TT_BELOW_1},
    {"eps", "1e-8", "added to the divisor", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, eps), .min = 0, .max = 1e6},
    {"low", "none", "the dtype of a copy for the kernels; set by the precision",
     TT_OPT_CHOICE, .offset = offsetof(tt_optim_params, low),
     .choices = "none|bf16|f16"},
    {"random", "false", "weights in bf16 are rounded up or down at random",
     TT_OPT_BOOL, .offset = offsetof(tt_optim_params, is_random)},
    {"seed", "0", "of that", TT_OPT_I64,
     .offset = offsetof(tt_optim_params, seed), .min = 0, .max = 9e15},
    {0},
};

static const tt_opt options_w[] = {
    {"weight_decay", "0.01", "how strongly weights are drawn to 0", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, weight_decay), .min = 0, .max = 1e6},
    {"beta1", "0.9", "how much of the mean gradient stays", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, beta1), .min = 0, .max = TT_BELOW_1},
    {"beta2", "0.999", "how much of the mean of squares stays", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, beta2), .min = 0, .max = TT_BELOW_1},
    {"eps", "1e-8", "added to the divisor", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, eps), .min = 0, .max = 1e6},
    {"low", "none", "the dtype of a copy for the kernels; set by the precision",
     TT_OPT_CHOICE, .offset = offsetof(tt_optim_params, low),
     .choices = "none|bf16|f16"},
    {"random", "false", "weights in bf16 are rounded up or down at random",
     TT_OPT_BOOL, .offset = offsetof(tt_optim_params, is_random)},
    {"seed", "0", "of that", TT_OPT_I64,
     .offset = offsetof(tt_optim_params, seed), .min = 0, .max = 9e15},
    {0},
};

static const tt_sample samples[] = {
    {"",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=1", "u=0", "m a:3 b:5",
      "m+ a:3 b:5"},
     15 * 16},
    {"beta1=0.8 beta2=0.95 eps=1e-5 weight_decay=0.1 low=bf16",
     {"m a:7.c:2", "m a:7.c:2", "m=0.1", "m=2", "I=4", "u=0", "m a:7.c:2",
      "m+ a:7.c:2"},
     14 * 16},
    {"",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=2", "u=1", "m a:3 b:5",
      "m+ a:3 b:5"},
     15 * 16},
    {"random=true seed=3",
     {"f a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=2", "u=0", "m a:3 b:5",
      "m+ a:3 b:5"},
     15 * 16},
    {0},
};

static const tt_sample samples_w[] = {
    {"",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=1", "u=0", "m a:3 b:5",
      "m+ a:3 b:5"},
     15 * 15},
    {"beta1=0.8 beta2=0.95 eps=1e-5 weight_decay=0.1 low=bf16",
     {"m a:7.c:2", "m a:7.c:2", "m=0.1", "m=2", "I=4", "u=0", "m a:7.c:2",
      "m+ a:7.c:2"},
     14 * 15},
    {"",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=2", "u=1", "m a:3 b:5",
      "m+ a:3 b:5"},
     15 * 15},
    {"random=true seed=3",
     {"f a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=2", "u=0", "m a:3 b:5",
      "m+ a:3 b:5"},
     15 * 15},
    {0},
};

const tt_op_def tt_op_adam = {
    .name = "adam",
    .doc = "A step of Adam.",
    .options = options,
    .params_bytes = sizeof(tt_optim_params),
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer,
    .shard = tt_shard_elementwise,
    .cost = tt_cost_each,
    .flops_each = 16,
    .samples = samples,
};

const tt_op_def tt_op_adamw = {
    .name = "adamw",
    .doc = "A step of AdamW.",
    .options = options_w,
    .params_bytes = sizeof(tt_optim_params),
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer_w,
    .shard = tt_shard_elementwise,
    .cost = tt_cost_each,
    .flops_each = 15,
    .samples = samples_w,
};
