// activation - functions of one element, and swiglu of two.
//
//                                                              flops  the gradient's
//   relu      max(x, 0)                                            1      1
//   tanh      the hyperbolic tangent                               1      3
//   sigmoid   1 / (1 + exp(-x))                                    4      3
//   silu      x / (1 + exp(-x))                                    4      9
//   gelu      x times the normal distribution function:
//     tanh      x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))      9     18
//     erf       x/2 (1 + erf(x / sqrt 2))                          5     11
//   swiglu    silu(a) * b, the gated unit of Llama-style models    5     12
//
// Flops are per element; tanh, erf and exp count 1. A new function of one element
// is a row of `gradients`, two defs here and their lines in list.h.

#include "ops/act/activation.h"

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

// ---- one element ---------------------------------------------------------

// A gradient takes the input or, where the slope follows from it, the result. Then the
// input need not be kept in memory for the backward pass.
static const struct {
    const tt_op_def *op, *grad;
    bool reads_result;
} gradients[] = {
    {&tt_op_relu, &tt_op_relu_grad, true},
    {&tt_op_tanh, &tt_op_tanh_grad, true},
    {&tt_op_sigmoid, &tt_op_sigmoid_grad, true},
    {&tt_op_silu, &tt_op_silu_grad, false},
    {&tt_op_gelu, &tt_op_gelu_grad, false},
};

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    int i = 0;
    while (gradients[i].op != node->op)
        i++;
    const tt_val of = gradients[i].reads_result ? node->out[0] : node->in[0];
    if (need[0])
        din[0] = tt_call(b, gradients[i].grad, node->params,
                         (tt_val[]){of, dout[0]}, 2, NULL);
    return tt_builder_status(b);
}

// Linear in dy.
static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, 2, TT_SUM, sigs);
}

tt_val tt_relu(tt_builder *b, tt_val x)
{
    return tt_call(b, &tt_op_relu, NULL, &x, 1, NULL);
}

tt_val tt_tanh(tt_builder *b, tt_val x)
{
    return tt_call(b, &tt_op_tanh, NULL, &x, 1, NULL);
}

// `more`: flags that not all have.
#define FUNCTION(more)                                                         \
    .flags = TT_OP_ELEMENTWISE | TT_OP_INPLACE | (more),                       \
    .infer = tt_infer_unary, .grad = grad, .shard = tt_shard_elementwise

#define GRADIENT(more)                                                         \
    .flags = TT_OP_ELEMENTWISE | TT_OP_INPLACE | (more),                       \
    .infer = tt_infer_binary, .shard = shard_grad

// Samples of x, and of x and dy, with so many flops for each element.
#define OF_X(kind, n)                                                          \
    {"", {kind " a:3 b:5"}, 15 * (n)},                                         \
    {                                                                          \
        "", {kind " a:2 b:3.c:2"}, 12 * (n)                                    \
    }
#define OF_DY(kind, n)                                                         \
    {"", {kind " a:3 b:5", "f a:3 b:5"}, 15 * (n)},                            \
    {                                                                          \
        "", {kind " a:2 b:3.c:2", "f a:2 b:3.c:2"}, 12 * (n)                   \
    }

static const tt_sample samples_relu[] = {OF_X("f!", 1), {0}};
static const tt_sample samples_relu_grad[] = {OF_DY("f!", 1), {0}};
static const tt_sample samples_tanh[] = {OF_X("f", 1), {0}};
static const tt_sample samples_tanh_grad[] = {OF_DY("f", 3), {0}};
static const tt_sample samples_sigmoid[] = {OF_X("f", 4), {0}};
static const tt_sample samples_sigmoid_grad[] = {OF_DY("f", 3), {0}};
static const tt_sample samples_silu[] = {OF_X("f", 4), {0}};
static const tt_sample samples_silu_grad[] = {OF_DY("f", 9), {0}};

const tt_op_def tt_op_relu = {
    .name = "relu",
    .doc = "max(x, 0).",
    FUNCTION(TT_OP_JUMPS),
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples_relu,
};

const tt_op_def tt_op_relu_grad = {
    .name = "relu_grad",
    .doc = "The gradient of relu.",
    GRADIENT(TT_OP_JUMPS),
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples_relu_grad,
};

const tt_op_def tt_op_tanh = {
    .name = "tanh",
    .doc = "The hyperbolic tangent.",
    FUNCTION(0),
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples_tanh,
};

const tt_op_def tt_op_tanh_grad = {
    .name = "tanh_grad",
    .doc = "The gradient of tanh.",
    GRADIENT(0),
    .cost = tt_cost_each,
    .flops_each = 3,
    .samples = samples_tanh_grad,
};

const tt_op_def tt_op_sigmoid = {
    .name = "sigmoid",
    .doc = "1 / (1 + exp(-x)).",
    FUNCTION(0),
    .cost = tt_cost_each,
    .flops_each = 4,
    .samples = samples_sigmoid,
};

const tt_op_def tt_op_sigmoid_grad = {
    .name = "sigmoid_grad",
    .doc = "The gradient of sigmoid.",
    GRADIENT(0),
    .cost = tt_cost_each,
    .flops_each = 3,
    .samples = samples_sigmoid_grad,
};

const tt_op_def tt_op_silu = {
    .name = "silu",
    .doc = "x * sigmoid(x).",
    FUNCTION(0),
    .cost = tt_cost_each,
    .flops_each = 4,
    .samples = samples_silu,
};

const tt_op_def tt_op_silu_grad = {
    .name = "silu_grad",
    .doc = "The gradient of silu.",
    GRADIENT(0),
    .cost = tt_cost_each,
    .flops_each = 9,
    .samples = samples_silu_grad,
};

// ---- gelu ----------------------------------------------------------------

static void cost_gelu(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const tt_gelu_params *p = io->params;
    tt_cost_elementwise(io, 0, p->form == TT_GELU_TANH ? 9 : 5, cost);
}

static void cost_gelu_grad(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const tt_gelu_params *p = io->params;
    tt_cost_elementwise(io, 0, p->form == TT_GELU_TANH ? 18 : 11, cost);
}

static const tt_opt options_gelu[] = {
    {"form", "tanh", "the tanh approximation, or exact", TT_OPT_CHOICE,
     .offset = offsetof(tt_gelu_params, form), .choices = "tanh|erf"},
    {0},
};

static const tt_sample samples_gelu[] = {
    {"form=tanh", {"f a:3 b:5"}, 135},
    {"form=erf", {"f a:2 b:3.c:2"}, 60},
    {0},
};

static const tt_sample samples_gelu_grad[] = {
    {"form=tanh", {"f a:3 b:5", "f a:3 b:5"}, 270},
    {"form=erf", {"f a:2 b:3.c:2", "f a:2 b:3.c:2"}, 132},
    {0},
};

const tt_op_def tt_op_gelu = {
    .name = "gelu",
    .doc = "The Gaussian error linear unit.",
    .options = options_gelu,
    .params_bytes = sizeof(tt_gelu_params),
    FUNCTION(0),
    .cost = cost_gelu,
    .samples = samples_gelu,
};

const tt_op_def tt_op_gelu_grad = {
    .name = "gelu_grad",
    .doc = "The gradient of gelu.",
    .options = options_gelu,
    .params_bytes = sizeof(tt_gelu_params),
    GRADIENT(0),
    .cost = cost_gelu_grad,
    .samples = samples_gelu_grad,
};

// ---- swiglu --------------------------------------------------------------

static tt_status infer_swiglu_grad(tt_op_io *io)
{
    TT_TRY(tt_infer_elementwise(io, "swiglu_grad", 3));
    tt_infer_add(io, io->in[1].dtype, &io->in[1].shape);
    return TT_OK;
}

static tt_status grad_swiglu(tt_builder *b, const tt_node *node,
                             const tt_val *dout, const bool *need, tt_val *din)
{
    tt_val d[TT_MAX_OUT];
    tt_call(b, &tt_op_swiglu_grad, NULL,
            (tt_val[]){node->in[0], node->in[1], dout[0]}, 3, d);
    for (int i = 0; i < 2; i++)
        if (need[i])
            din[i] = d[i];
    return tt_builder_status(b);
}

static void shard_swiglu_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, 4, TT_SUM, sigs);
}

static const tt_sample samples_swiglu[] = {
    {"", {"f a:3 b:5", "f a:3 b:5"}, 75},
    {"", {"f a:2 b:3.c:2", "f a:2 b:3.c:2"}, 60},
    {0},
};

static const tt_sample samples_swiglu_grad[] = {
    {"", {"f a:3 b:5", "f a:3 b:5", "f a:3 b:5"}, 180},
    {"", {"f a:2 b:3.c:2", "f a:2 b:3.c:2", "f a:2 b:3.c:2"}, 144},
    {0},
};

const tt_op_def tt_op_swiglu = {
    .name = "swiglu",
    .doc = "silu(a) * b.",
    .flags = TT_OP_ELEMENTWISE | TT_OP_INPLACE,
    .infer = tt_infer_binary,
    .grad = grad_swiglu,
    .shard = shard_grad, // linear in b
    .cost = tt_cost_each,
    .flops_each = 5,
    .samples = samples_swiglu,
};

const tt_op_def tt_op_swiglu_grad = {
    .name = "swiglu_grad",
    .doc = "The gradients of swiglu.",
    .flags = TT_OP_ELEMENTWISE | TT_OP_INPLACE,
    .infer = infer_swiglu_grad,
    .shard = shard_swiglu_grad,
    .cost = tt_cost_each,
    .flops_each = 12,
    .samples = samples_swiglu_grad,
};
