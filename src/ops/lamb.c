// lamb - Adam with a rate per layer: the ratio of the norms of weight and update
// (You et al. 2020). Two operators, because the second needs a norm of what the
// first computes:
//
//   lamb_update   m, v as adam;  u = m' / (sqrt(v') + eps) + weight_decay * w
//                 with m' = m / (1 - beta1^step), v' = v / (1 - beta2^step)
//   lamb          w -= lr * |w| / |u| * u     the ratio is 1 when a norm is 0
//
// Without `adapt` the ratio is 1 and the sums of squares are not given. When the
// step is skipped u is w, which nobody reads.
//
//   flops   lamb_update 15, lamb 2 per element

#include "ops/clip.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/optim.h"
#include "ops/shard_common.h"

// Takes what every optimiser takes; gives u in place of the weight.
static tt_status infer_update(tt_op_io *io)
{
    return tt_optim_infer(io, "lamb_update", 2, 0);
}

// w, u, lr, skip, |w|^2, |u|^2
static tt_status infer(tt_op_io *io)
{
    const tt_optim_params *p = io->params;
    const int n = p->adapt ? 6 : 4;
    TT_TRY(tt_infer_inputs(io, "lamb", n, n));
    TT_TRY(tt_infer_float(io, "lamb", 0));
    TT_TRY(tt_infer_float(io, "lamb", 1));
    TT_TRY(tt_infer_same_dims(io, "lamb", 0, 1));
    TT_TRY(tt_infer_float_scalar(io, "lamb", 2));
    TT_TRY(tt_infer_scalar(io, "lamb", 3, TT_U8));
    for (int i = 4; i < n; i++)
        TT_TRY(tt_infer_float_scalar(io, "lamb", i));
    tt_optim_add_outputs(io, 0);
    return TT_OK;
}

void tt_optim_emit_lamb(tt_builder *b, tt_optim_node *node)
{
    tt_val out[TT_MAX_OUT];
    tt_optim_params params = node->params;
    params.low = TT_LOW_NONE;
    const tt_val u = tt_call(b, &tt_op_lamb_update, &params, node->in,
                             TT_OPTIM_STATE + 2, out);
    node->state[0] = out[1];
    node->state[1] = out[2];
    const tt_val w = node->in[TT_OPTIM_W];
    tt_val in[6] = {w, u, node->in[TT_OPTIM_LR], node->in[TT_OPTIM_SKIP]};
    if (node->params.adapt) {
        in[4] = tt_optim_squares(b, node, w);
        in[5] = tt_optim_squares(b, node, u);
    }
    node->w = tt_call(b, &tt_op_lamb, &node->params, in,
                      node->params.adapt ? 6 : 4, out);
    node->low = out[1];
}

static const tt_opt options_update[] = {
    {"weight_decay", "0.01", "how strongly weights are drawn to 0", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, weight_decay), .min = 0, .max = 1e6},
    {"beta1", "0.9", "how much of the mean gradient stays", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, beta1), .min = 0, .max = TT_BELOW_1},
    {"beta2", "0.999", "how much of the mean of squares stays", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, beta2), .min = 0, .max = TT_BELOW_1},
    {"eps", "1e-6", "added to the divisor", TT_OPT_F64,
     .offset = offsetof(tt_optim_params, eps), .min = 0, .max = 1e6},
    {"adapt", "true", "whether the norms of weight and update set the rate",
     TT_OPT_BOOL, .offset = offsetof(tt_optim_params, adapt)},
    {0},
};

static const tt_opt options[] = {
    {"adapt", "true", "whether the norms of weight and update set the rate",
     TT_OPT_BOOL, .offset = offsetof(tt_optim_params, adapt)},
    {"low", "none", "the dtype of a copy for the kernels; set by the precision",
     TT_OPT_CHOICE, .offset = offsetof(tt_optim_params, low),
     .choices = "none|bf16|f16"},
    {0},
};

static const tt_sample samples_update[] = {
    {"",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=1", "u=0", "m a:3 b:5",
      "m+ a:3 b:5"},
     15 * 15},
    {"beta1=0.8 beta2=0.95 weight_decay=0.1",
     {"m a:7.c:2", "m a:7.c:2", "m=0.1", "m=2", "I=4", "u=0", "m a:7.c:2",
      "m+ a:7.c:2"},
     14 * 15},
    {"",
     {"m a:3 b:5", "m a:3 b:5", "m=0.1", "m=0.5", "I=2", "u=1", "m a:3 b:5",
      "m+ a:3 b:5"},
     15 * 15},
    {0},
};

static const tt_sample samples[] = {
    {"", {"m a:3 b:5", "m a:3 b:5", "m=0.1", "u=0", "m=4", "m=2"}, 30},
    {"low=bf16", {"m a:7.c:2", "m a:7.c:2", "m=0.1", "u=0", "m=4", "m=0"}, 28},
    {"adapt=false", {"m a:3 b:5", "m a:3 b:5", "m=0.1", "u=0"}, 30},
    {"", {"m a:3 b:5", "m a:3 b:5", "m=0.1", "u=1", "m=4", "m=2"}, 30},
    {0},
};

const tt_op_def tt_op_lamb_update = {
    .name = "lamb_update",
    .doc = "The update of LAMB before it is scaled.",
    .options = options_update,
    .params_bytes = sizeof(tt_optim_params),
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer_update,
    .shard = tt_shard_elementwise,
    .cost = tt_cost_each,
    .flops_each = 15,
    .samples = samples_update,
};

const tt_op_def tt_op_lamb = {
    .name = "lamb",
    .doc = "A step of LAMB, given the update.",
    .options = options,
    .params_bytes = sizeof(tt_optim_params),
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer,
    .shard = tt_shard_elementwise,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples,
};
