// lars - momentum with a rate per layer: the ratio of the norms of weight and
// gradient (You et al. 2017). The norms come as sums of squares.
//
//   rate = trust * |w| / (|g| + weight_decay * |w| + eps)     1 when a norm is 0
//   v    = momentum * v + lr * rate * (g + weight_decay * w)
//   w   -= v
//
// Without `adapt` the rate is 1 and the sums are not given.
//
//   flops   7 per element

#include "ops/clip.h"
#include "ops/cost.h"
#include "ops/ops.h"
#include "ops/optim.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    const tt_optim_params *p = io->params;
    const int n = TT_OPTIM_STATE + 1 + (p->adapt ? 2 : 0);
    if (io->n_in != n)
        return tt_fail(TT_ERR_ARG, "lars: takes %d inputs %s adapt, not %d", n,
                       p->adapt ? "with" : "without", io->n_in);
    return tt_optim_infer(io, "lars", 1, 2);
}

void tt_optim_emit_lars(tt_builder *b, tt_optim_node *node)
{
    tt_val in[TT_OPTIM_STATE + 3], out[TT_MAX_OUT];
    for (int i = 0; i <= TT_OPTIM_STATE; i++)
        in[i] = node->in[i];
    int n_in = TT_OPTIM_STATE + 1;
    if (node->params.adapt) {
        in[n_in++] = tt_optim_squares(b, node, node->in[TT_OPTIM_W]);
        in[n_in++] = tt_optim_squares(b, node, node->in[TT_OPTIM_G]);
    }
    node->w = tt_call(b, &tt_op_lars, &node->params, in, n_in, out);
    node->state[0] = out[1];
    node->low = out[2];
}

static const tt_opt options[] = {
    {"weight_decay", "0", "how strongly weights are drawn to 0", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, weight_decay), .min = 0, .max = 1e6},
    {"momentum", "0.9", "how much of the last update stays", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, momentum), .min = 0,
     .max = TT_BELOW_1},
    {"trust", "0.001",
     "the rate of a layer whose weight and gradient have the same norm",
     TT_OPT_F64, .offset = offsetof(tt_optim_params, trust), .min = 0,
     .max = 1e6},
    {"eps", "1e-8", "added to the divisor", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, eps), .min = 0, .max = 1e6},
    {"adapt", "true", "whether the norms of weight and update set the rate",
     TT_OPT_BOOL, .offset = offsetof(tt_optim_params, adapt)},
    {"low", "none", "the dtype of a copy for the kernels; set by the precision",
     TT_OPT_CHOICE, .offset = offsetof(tt_optim_params, low),
     .choices = "none|bf16|f16"},
    {0},
};

static const tt_sample samples[] = {
    {"adapt=false",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=1", "u=0", "m a:3 b:5"},
     15 * 7},
    {"weight_decay=0.1 low=bf16",
     {"m a:7.c:2", "m a:7.c:2", "m=0.1", "m=2", "I=4", "u=0", "m a:7.c:2",
      "m=5", "m=0.5"},
     14 * 7},
    {"trust=0.01",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=3", "u=0", "m a:3 b:5",
      "m=0", "m=0.5"},
     15 * 7},
    {"",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=3", "u=1", "m a:3 b:5",
      "m=2", "m=0.5"},
     15 * 7},
    {0},
};

const tt_op_def tt_op_lars = {
    .name = "lars",
    .doc = "A step of LARS.",
    .options = options,
    .params_bytes = sizeof(tt_optim_params),
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer,
    .shard = tt_shard_elementwise,
    .cost = tt_cost_each,
    .flops_each = 7,
    .samples = samples,
};
