// optim_rules - the optimisers: their table, and the operators that are one step of
// each. A new one is a def here, a row of the table and a line in list.h.
//
// w is the weight, g its gradient times `scale`; formulas are PyTorch's.
//
//   sgd        w -= lr * (g + weight_decay * w)
//
//   momentum   g += weight_decay * w
//              v  = momentum * v + (1 - dampening) * g     the first time v = g
//              w -= lr * (nesterov ? g + momentum * v : v)
//
//   adagrad    g += weight_decay * w
//              s += g * g
//              w -= lr / (1 + (step - 1) * lr_decay) * g / (sqrt(s) + eps)
//
//   rmsprop    g += weight_decay * w
//              s  = alpha * s + (1 - alpha) * g * g
//              w -= lr * g / (sqrt(s) + eps)
//
//   adam       g += weight_decay * w         adamw   w -= lr * weight_decay * w
//              m  = beta1 * m + (1 - beta1) * g
//              v  = beta2 * v + (1 - beta2) * g * g
//              w -= lr / (1 - beta1^step) * m
//                      / (sqrt(v) / sqrt(1 - beta2^step) + eps)
//
//   yogi       Adam, but the mean of squares moves by a part of the square, up or down, not
//              by a part of the difference, so a large gradient is not soon
//              forgotten (Zaheer et al. 2018):
//              v -= (1 - beta2) * sign(v - g * g) * g * g
//
//   lars       Momentum with a rate per layer, the ratio of the norms of weight and
//              gradient (You et al. 2017):
//              rate = trust * |w| / (|g| + weight_decay * |w| + eps)
//              v    = momentum * v + lr * rate * (g + weight_decay * w)
//              w   -= v
//
//   lamb       Adam with a rate per layer, the ratio of the norms of weight and
//              update (You et al. 2020). Two operators, because the second needs a
//              norm of what the first, lamb_update, computes:
//              m, v as adam; m' = m / (1 - beta1^step), v' = v / (1 - beta2^step)
//              u  = m' / (sqrt(v') + eps) + weight_decay * w
//              w -= lr * |w| / |u| * u
//
// The norms of lars and lamb come as sums of squares. Without `adapt` they are not
// given; then, and when a norm is 0, the rate or the ratio is 1. When a step is
// skipped u is w, which nobody reads.

#include "base/registry.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/optim/clip.h"
#include "ops/optim/optim.h"
#include "ops/shard_common.h"

#include <string.h>

// ---- types ---------------------------------------------------------------

static void add_outputs(tt_op_io *io, int n_state)
{
    const tt_optim_params *p = io->params;
    const tt_shape *shape = &io->in[TT_OPTIM_W].shape;
    tt_infer_add(io, io->in[TT_OPTIM_W].dtype, shape);
    for (int i = 0; i < n_state; i++)
        tt_infer_add(io, io->in[TT_OPTIM_STATE + i].dtype, shape);
    if (p->low != TT_LOW_NONE)
        tt_infer_add(io, p->low == TT_LOW_BF16 ? TT_BF16 : TT_F16, shape);
}

// `n_extra` scalars may follow the states.
static tt_status infer(tt_op_io *io, int n_state, int n_extra)
{
    const char *op = io->op->name;
    const int n = TT_OPTIM_STATE + n_state;
    TT_TRY(tt_infer_inputs(io, op, n, n + n_extra));
    TT_TRY(tt_infer_float(io, op, TT_OPTIM_W));
    TT_TRY(tt_infer_float(io, op, TT_OPTIM_G));
    TT_TRY(tt_infer_same_dims(io, op, TT_OPTIM_W, TT_OPTIM_G));
    TT_TRY(tt_infer_float_scalar(io, op, TT_OPTIM_LR));
    TT_TRY(tt_infer_float_scalar(io, op, TT_OPTIM_SCALE));
    TT_TRY(tt_infer_scalar(io, op, TT_OPTIM_STEP, TT_I64));
    TT_TRY(tt_infer_scalar(io, op, TT_OPTIM_SKIP, TT_U8));
    for (int i = TT_OPTIM_STATE; i < n; i++) {
        TT_TRY(tt_infer_float(io, op, i));
        TT_TRY(tt_infer_same_dims(io, op, TT_OPTIM_W, i));
    }
    for (int i = n; i < io->n_in; i++)
        TT_TRY(tt_infer_float_scalar(io, op, i));
    add_outputs(io, n_state);
    return TT_OK;
}

static tt_status infer_stateless(tt_op_io *io)
{
    return infer(io, 0, 0);
}

static tt_status infer_one_state(tt_op_io *io)
{
    return infer(io, 1, 0);
}

static tt_status infer_two_states(tt_op_io *io)
{
    return infer(io, 2, 0);
}

static tt_status infer_lars(tt_op_io *io)
{
    const tt_optim_params *p = io->params;
    const int n = TT_OPTIM_STATE + 1 + (p->adapt ? 2 : 0);
    if (io->n_in != n)
        return tt_fail(TT_ERR_ARG, "lars: takes %d inputs %s adapt, not %d", n,
                       p->adapt ? "with" : "without", io->n_in);
    return infer(io, 1, 2);
}

// w, u, lr, skip, |w|^2, |u|^2
static tt_status infer_lamb(tt_op_io *io)
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
    add_outputs(io, 0);
    return TT_OK;
}

// ---- what an update emits ------------------------------------------------

// The usual case: one node does the whole update.
static void emit_one(tt_builder *b, tt_optim_node *node)
{
    const int n_state = node->def->n_state;
    tt_val out[TT_MAX_OUT];
    node->w = tt_call(b, node->def->op, &node->params, node->in,
                      TT_OPTIM_STATE + n_state, out);
    for (int i = 0; i < n_state; i++)
        node->state[i] = out[1 + i];
    node->low = out[1 + n_state];
}

// lars also reads the sums of squares of weight and gradient. They are inputs and not
// computed by the kernel, because the tensor may be split over ranks.
static void emit_lars(tt_builder *b, tt_optim_node *node)
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

// lamb needs the norm of the update before it can apply it: two nodes with a sum of
// squares between them.
static void emit_lamb(tt_builder *b, tt_optim_node *node)
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

// ---- options -------------------------------------------------------------

#define FIELD(field) .offset = offsetof(tt_optim_params, field)
#define NUMBER(field, value, text)                                             \
    .name = #field, .fallback = (value), .doc = (text), .type = TT_OPT_F64,    \
    FIELD(field), .max = 1e6
#define SHARE(field, value, text)                                              \
    .name = #field, .fallback = (value), .doc = (text), .type = TT_OPT_F64,    \
    FIELD(field), .max = TT_BELOW_1

#define DECAY(fallback)                                                        \
    NUMBER(weight_decay, fallback, "how strongly weights are drawn to 0")
#define MOMENTUM SHARE(momentum, "0.9", "how much of the last update stays")
#define BETA1 SHARE(beta1, "0.9", "how much of the mean gradient stays")
#define BETA2 SHARE(beta2, "0.999", "how much of the mean of squares stays")
#define EPS(fallback) NUMBER(eps, fallback, "added to the divisor")
#define ADAPT                                                                  \
    "adapt", "true", "whether the norms of weight and update set the rate",    \
        TT_OPT_BOOL, FIELD(adapt)
#define LOW                                                                    \
    "low", "none",                                                             \
        "the dtype of a copy for the kernels; set by the precision",           \
        TT_OPT_CHOICE, FIELD(low), .choices = "none|bf16|f16"
#define RANDOM                                                                 \
    "random", "false", "weights in bf16 are rounded up or down at random",     \
        TT_OPT_BOOL, FIELD(is_random)
#define SEED "seed", "0", "of that", TT_OPT_I64, FIELD(seed), .max = 9e15

static const tt_opt options_sgd[] = {{DECAY("0")}, {LOW}, {0}};
static const tt_opt options_momentum[] = {
    {DECAY("0")},
    {MOMENTUM},
    {SHARE(dampening, "0", "how much of the gradient momentum leaves out")},
    {"nesterov", "false", "whether momentum looks ahead", TT_OPT_BOOL,
     FIELD(nesterov)},
    {LOW},
    {0},
};
static const tt_opt options_adagrad[] = {
    {DECAY("0")},
    {NUMBER(lr_decay, "0", "how fast the rate falls")},
    {NUMBER(initial, "0", "the sum of squares to start from")},
    {EPS("1e-10")},
    {LOW},
    {0},
};
static const tt_opt options_rmsprop[] = {
    {DECAY("0")},
    {SHARE(alpha, "0.99", "how much of the mean of squares stays")},
    {EPS("1e-8")},
    {LOW},
    {0},
};
static const tt_opt options_adam[] = {
    {DECAY("0")}, {BETA1}, {BETA2}, {EPS("1e-8")}, {LOW}, {RANDOM}, {SEED}, {0},
};
static const tt_opt options_adamw[] = {
    {DECAY("0.01")}, {BETA1},  {BETA2}, {EPS("1e-8")},
    {LOW},           {RANDOM}, {SEED},  {0},
};
static const tt_opt options_yogi[] = {
    {DECAY("0")}, {BETA1}, {BETA2}, {EPS("1e-3")}, {LOW}, {0},
};
static const tt_opt options_lars[] = {
    {DECAY("0")},
    {MOMENTUM},
    {NUMBER(trust, "0.001",
            "the rate of a layer whose weight and gradient have the same "
            "norm")},
    {EPS("1e-8")},
    {ADAPT},
    {LOW},
    {0},
};
static const tt_opt options_lamb_update[] = {
    {DECAY("0.01")}, {BETA1}, {BETA2}, {EPS("1e-6")}, {ADAPT}, {0},
};
static const tt_opt options_lamb[] = {{ADAPT}, {LOW}, {0}};

// ---- samples -------------------------------------------------------------

#define A "m a:3 b:5"
#define C "m a:7.c:2"
#define POSITIVE_A "m+ a:3 b:5"
#define POSITIVE_C "m+ a:7.c:2"

// w, g, lr, scale, step and skip, of 15 and of 14 elements.
#define IN_15(step, skip) A, A, "m=0.1", "m=0.5", step, skip
#define IN_14(step) C, C, "m=0.1", "m=2", step, "u=0"

static const tt_sample samples_sgd[] = {
    {"", {IN_15("I=1", "u=0")}, 15 * 5},
    {"weight_decay=0.1 low=bf16", {IN_14("I=4")}, 14 * 5},
    {"weight_decay=0.1", {IN_15("I=4", "u=1")}, 15 * 5},
    {0},
};
static const tt_sample samples_momentum[] = {
    {"", {IN_15("I=1", "u=0"), A}, 15 * 10},
    {"dampening=0.25 low=bf16", {IN_14("I=3"), C}, 14 * 10},
    {"momentum=0.8 nesterov=true weight_decay=0.1",
     {IN_15("I=2", "u=0"), A},
     15 * 10},
    {"", {IN_15("I=2", "u=1"), A}, 15 * 10},
    {0},
};
static const tt_sample samples_adagrad[] = {
    {"", {IN_15("I=1", "u=0"), POSITIVE_A}, 15 * 10},
    {"lr_decay=0.1 weight_decay=0.1 low=f16",
     {IN_14("I=4"), POSITIVE_C},
     14 * 10},
    {"", {IN_15("I=2", "u=1"), POSITIVE_A}, 15 * 10},
    {0},
};
static const tt_sample samples_rmsprop[] = {
    {"", {IN_15("I=1", "u=0"), POSITIVE_A}, 15 * 12},
    {"alpha=0.9 weight_decay=0.1 low=bf16",
     {IN_14("I=4"), POSITIVE_C},
     14 * 12},
    {"", {IN_15("I=2", "u=1"), POSITIVE_A}, 15 * 12},
    {0},
};

// A weight in bf16 for what rounds at random.
#define IN_RANDOM "f a:3 b:5", A, "m=0.1", "m=0.5", "I=2", "u=0", A, POSITIVE_A

static const tt_sample samples_adam[] = {
    {"", {IN_15("I=1", "u=0"), A, POSITIVE_A}, 15 * 16},
    {"beta1=0.8 beta2=0.95 eps=1e-5 weight_decay=0.1 low=bf16",
     {IN_14("I=4"), C, POSITIVE_C},
     14 * 16},
    {"", {IN_15("I=2", "u=1"), A, POSITIVE_A}, 15 * 16},
    {"random=true seed=3", {IN_RANDOM}, 15 * 16},
    {0},
};
static const tt_sample samples_adamw[] = {
    {"", {IN_15("I=1", "u=0"), A, POSITIVE_A}, 15 * 15},
    {"beta1=0.8 beta2=0.95 eps=1e-5 weight_decay=0.1 low=bf16",
     {IN_14("I=4"), C, POSITIVE_C},
     14 * 15},
    {"", {IN_15("I=2", "u=1"), A, POSITIVE_A}, 15 * 15},
    {"random=true seed=3", {IN_RANDOM}, 15 * 15},
    {0},
};
static const tt_sample samples_yogi[] = {
    {"", {IN_15("I=1", "u=0"), A, POSITIVE_A}, 15 * 18},
    {"beta1=0.8 beta2=0.95 eps=1e-5 weight_decay=0.1 low=bf16",
     {IN_14("I=4"), C, POSITIVE_C},
     14 * 18},
    {"", {IN_15("I=2", "u=1"), A, POSITIVE_A}, 15 * 18},
    {0},
};
static const tt_sample samples_lars[] = {
    {"adapt=false", {IN_15("I=1", "u=0"), A}, 15 * 7},
    {"weight_decay=0.1 low=bf16", {IN_14("I=4"), C, "m=5", "m=0.5"}, 14 * 7},
    {"trust=0.01", {IN_15("I=3", "u=0"), A, "m=0", "m=0.5"}, 15 * 7},
    {"", {IN_15("I=3", "u=1"), A, "m=2", "m=0.5"}, 15 * 7},
    {0},
};
static const tt_sample samples_lamb_update[] = {
    {"", {IN_15("I=1", "u=0"), A, POSITIVE_A}, 15 * 15},
    {"beta1=0.8 beta2=0.95 weight_decay=0.1",
     {IN_14("I=4"), C, POSITIVE_C},
     14 * 15},
    {"", {IN_15("I=2", "u=1"), A, POSITIVE_A}, 15 * 15},
    {0},
};
static const tt_sample samples_lamb[] = {
    {"", {A, A, "m=0.1", "u=0", "m=4", "m=2"}, 15 * 2},
    {"low=bf16", {C, C, "m=0.1", "u=0", "m=4", "m=0"}, 14 * 2},
    {"adapt=false", {A, A, "m=0.1", "u=0"}, 15 * 2},
    {"", {A, A, "m=0.1", "u=1", "m=4", "m=2"}, 15 * 2},
    {0},
};

// ---- defs ----------------------------------------------------------------

// What is the same for all: NAME has options_NAME and samples_NAME, and so many
// flops for each element.
#define RULE(rule, flops)                                                      \
    .name = #rule, .options = options_##rule,                                  \
    .params_bytes = sizeof(tt_optim_params), .flags = TT_OP_ELEMENTWISE,       \
    .shard = tt_shard_elementwise, .cost = tt_cost_each,                       \
    .flops_each = (flops), .samples = samples_##rule

const tt_op_def tt_op_sgd = {
    RULE(sgd, 5),
    .doc = "A step of stochastic gradient descent.",
    .infer = infer_stateless,
};

const tt_op_def tt_op_momentum = {
    RULE(momentum, 10),
    .doc = "A step of SGD with momentum.",
    .infer = infer_one_state,
};

const tt_op_def tt_op_adagrad = {
    RULE(adagrad, 10),
    .doc = "A step of AdaGrad.",
    .infer = infer_one_state,
};

const tt_op_def tt_op_rmsprop = {
    RULE(rmsprop, 12),
    .doc = "A step of RMSProp.",
    .infer = infer_one_state,
};

const tt_op_def tt_op_adam = {
    RULE(adam, 16),
    .doc = "A step of Adam.",
    .infer = infer_two_states,
};

const tt_op_def tt_op_adamw = {
    RULE(adamw, 15),
    .doc = "A step of AdamW.",
    .infer = infer_two_states,
};

const tt_op_def tt_op_yogi = {
    RULE(yogi, 18),
    .doc = "A step of Yogi.",
    .infer = infer_two_states,
};

const tt_op_def tt_op_lars = {
    RULE(lars, 7),
    .doc = "A step of LARS.",
    .infer = infer_lars,
};

const tt_op_def tt_op_lamb_update = {
    RULE(lamb_update, 15),
    .doc = "The update of LAMB before it is scaled.",
    .infer = infer_two_states,
};

const tt_op_def tt_op_lamb = {
    RULE(lamb, 2),
    .doc = "A step of LAMB, given the update.",
    .infer = infer_lamb,
};

// ---- the table -----------------------------------------------------------

#define OPTIMISER(rule) .name = #rule, .op = &tt_op_##rule

static const tt_optim_def all[] = {
    {OPTIMISER(sgd), .doc = "Stochastic gradient descent.", .emit = emit_one},
    {OPTIMISER(momentum), .doc = "SGD with momentum, Nesterov's on request.",
     .n_state = 1, .state = {"momentum_buffer"}, .emit = emit_one},
    {OPTIMISER(adagrad), .doc = "AdaGrad.", .n_state = 1, .state = {"sum"},
     .emit = emit_one},
    {OPTIMISER(rmsprop), .doc = "RMSProp.", .n_state = 1,
     .state = {"square_avg"}, .emit = emit_one},
    {OPTIMISER(adam), .doc = "Adam; weight decay is part of the gradient.",
     .n_state = 2, .state = {"exp_avg", "exp_avg_sq"}, .emit = emit_one},
    {OPTIMISER(adamw), .doc = "Adam with decoupled weight decay.", .n_state = 2,
     .state = {"exp_avg", "exp_avg_sq"}, .emit = emit_one},
    {OPTIMISER(yogi),
     .doc = "Adam whose mean of squares moves slowly (Zaheer et al. 2018).",
     .n_state = 2, .state = {"exp_avg", "exp_avg_sq"}, .emit = emit_one},
    {OPTIMISER(lars),
     .doc = "Momentum with a rate per layer (You et al. 2017).", .n_state = 1,
     .state = {"momentum_buffer"}, .emit = emit_lars},
    {.name = "lamb",
     .op = &tt_op_lamb_update,
     .doc = "Adam with a rate per layer (You et al. 2020).",
     .n_state = 2,
     .state = {"exp_avg", "exp_avg_sq"},
     .emit = emit_lamb},
};

TT_REGISTRY_TABLE(tt_optim, all)

int tt_optim_n_state(const tt_op_def *op)
{
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].op == op)
            return all[i].n_state;
    return 0; // lamb, ema
}
