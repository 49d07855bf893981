// momentum - SGD with momentum, as torch.optim.SGD.
//
//   g += weight_decay * w
//   v  = momentum * v + (1 - dampening) * g      the first time v = g
//   w -= lr * (nesterov ? g + momentum * v : v)
//
//   flops   10 per element

#include "ops/cost.h"
#include "ops/ops.h"
#include "ops/optim.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    return tt_optim_infer(io, "momentum", 1, 0);
}

static const tt_opt options[] = {
    {"weight_decay", "0", "how strongly weights are drawn to 0", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, weight_decay), .min = 0, .max = 1e6},
    {"momentum", "0.9", "how much of the last update stays", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, momentum), .min = 0,
     .max = TT_BELOW_1},
    {"dampening", "0", "how much of the gradient momentum leaves out",
     TT_OPT_F64, .offset = offsetof(tt_optim_params, dampening), .min = 0,
     .max = TT_BELOW_1},
    {"nesterov", "false", "whether momentum looks ahead", TT_OPT_BOOL,
     .offset = offsetof(tt_optim_params, nesterov)},
    {"low", "none", "the dtype of a copy for the kernels; set by the precision",
     TT_OPT_CHOICE, .offset = offsetof(tt_optim_params, low),
     .choices = "none|bf16|f16"},
    {0},
};

static const tt_sample samples[] = {
    {"",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=1", "u=0", "m a:3 b:5"},
     15 * 10},
    {"dampening=0.25 low=bf16",
     {"m a:7.c:2", "m a:7.c:2", "m=0.1", "m=2", "I=3", "u=0", "m a:7.c:2"},
     14 * 10},
    {"momentum=0.8 nesterov=true weight_decay=0.1",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=2", "u=0", "m a:3 b:5"},
     15 * 10},
    {"",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=2", "u=1", "m a:3 b:5"},
     15 * 10},
    {0},
};

const tt_op_def tt_op_momentum = {
    .name = "momentum",
    .doc = "A step of SGD with momentum.",
    .options = options,
    .params_bytes = sizeof(tt_optim_params),
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer,
    .shard = tt_shard_elementwise,
    .cost = tt_cost_each,
    .flops_each = 10,
    .samples = samples,
};
