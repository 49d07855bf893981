// conv_relu, conv_grad_x_add, relu_grad_bias - convolutions, and what stands between
// them, that do what comes after them while the result is in registers.
//
//   conv_relu         y  = max(conv(x, w) + bias, 0)
//   conv_grad_x_add   dx = plus + conv_grad_x(dy, w); plus comes first, so that dx may
//                     take its place
//   relu_grad_bias    dz = dy where y > 0, and db, the sum of dz over all but channels
//
// Operands as in conv, conv_grad_x, relu_grad and conv_grad_b. flops: the
// convolution's; of relu_grad_bias 2 per element.

#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/fused/fused.h"
#include "ops/infer_common.h"
#include "ops/nn/conv_common.h"
#include "ops/ops.h"

static const tt__conv_roles roles = {"xwb", 'y'};
static const tt__conv_roles roles_add = {"-ywx", 'x'};

static tt_status infer_relu(tt_op_io *io)
{
    return tt_op_conv.infer(io);
}

static void cost_relu(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const int after = tt_io_has(io, 2) ? 2 : 1;
    tt_cost_io(io, 0, cost);
    tt__conv_cost(io, &roles, cost);
    cost->work += after * tt_cost_count(&io->out[0]);
    cost->depth += after;
}

static tt_status infer_add(tt_op_io *io)
{
    const char *op = "conv_grad_x_add";
    tt_op_io gradient = *io;
    TT_TRY(tt_infer_inputs(io, op, 4, 4));
    gradient.in = io->in + TT_CA_DY;
    gradient.n_in = io->n_in - TT_CA_DY;
    TT_TRY(tt_op_conv_grad_x.infer(&gradient));
    io->n_out = 1;
    TT_TRY(tt__expect_dtype(io, op, TT_CA_PLUS, io->out[0].dtype, "plus"));
    return tt__expect_dims(io, op, TT_CA_PLUS, &io->out[0].shape, "plus");
}

static void cost_add(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt_cost_io(io, 1U << TT_CA_X, cost);
    tt__conv_cost(io, &roles_add, cost);
    cost->work += tt_cost_count(&io->out[0]);
    cost->depth += 1;
}

static tt_status infer_bias(tt_op_io *io)
{
    tt_op_io relu = *io, bias = *io;
    TT_TRY(tt_infer_inputs(io, "relu_grad_bias", 2, 3));
    relu.n_in = TT_RB_B;
    relu.op = &tt_op_relu_grad;
    TT_TRY(tt_op_relu_grad.infer(&relu));
    bias.in = io->in + TT_RB_DY;
    bias.n_in = io->n_in - TT_RB_DY;
    bias.out = io->out + TT_RB_DB;
    TT_TRY(tt_op_conv_grad_b.infer(&bias));
    io->n_out = 2;
    return TT_OK;
}

static void cost_bias(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[TT_RB_Y]);
    tt_cost_io(io, 1U << TT_RB_B, cost);
    cost->flops = cost->work = 2 * n;
    cost->depth = 1 + tt_cost_log2(n / tt_cost_count(&io->out[TT_RB_DB]));
}

static const tt_sample samples_relu[] = {
    {"pad=1",
     {"f batch:2 channels:3 height:5 width:4",
      "f filters:4 channels:3 kernel_h:3 kernel_w:3", "f filters:4"},
     8640}, // 2 * (2*4*5*4) * (3*3*3)
    {"stride=2 groups=2",
     {"f batch:3 channels:4 width:9", "f filters:4 channels:2 kernel:3"},
     576}, // 2 * (3*4*4) * (2*3)
    {"",
     {"f batch:2 channels:8 height:3 width:3",
      "f filters:8 channels:8 kernel_h:1 kernel_w:1", "f filters:8"},
     2304}, // 2 * (2*8*9) * 8
    {"pad=1",
     {"f batch:2 channels:3 height:4 width:3",
      "f filters:8 channels:3 kernel_h:3 kernel_w:3", "f filters:8"},
     10368}, // 2 * (2*8*4*3) * (3*3*3)
    {0},
};

static const tt_sample samples_add[] = {
    {"",
     {"f batch:2 channels:3 height:5 width:4",
      "f batch:2 channels:2 height:3 width:3",
      "f filters:2 channels:3 kernel_h:3 kernel_w:2",
      "f batch:2 channels:3 height:5 width:4"},
     1296},
    {"stride=2 pad=1 dilation=2 groups=2",
     {"f batch:3 channels:4 width:9", "f batch:3 channels:4 width:4",
      "f filters:4 channels:2 kernel:3", "f batch:3 channels:4 width:9"},
     576},
    {"",
     {"f batch:2 channels:8 height:3 width:3",
      "f batch:2 channels:4 height:3 width:3",
      "f filters:4 channels:8 kernel_h:1 kernel_w:1",
      "f batch:2 channels:8 height:3 width:3"},
     1152}, // 2 * (2*4*9) * 8
    {0},
};

static const tt_sample samples_bias[] = {
    {"",
     {"f! batch:2 channels:3 height:5 width:4",
      "f batch:2 channels:3 height:5 width:4"},
     240}, // 2 * 120
    {"",
     {"f! batch:3 channels:4 width:5", "f batch:3 channels:4 width:5",
      "f filters:4"},
     120}, // 2 * 60
    {"",
     {"f! batch:2 channels:8 height:9 width:7",
      "f batch:2 channels:8 height:9 width:7"},
     2016}, // 2 * 1008
    {0},
};

const tt_op_def tt_op_relu_grad_bias = {
    .name = "relu_grad_bias",
    .doc = "The gradients of relu and of the bias in front of it.",
    .flags = TT_OP_JUMPS,
    .shape_only = 1U << TT_RB_B,
    .infer = infer_bias,
    .cost = cost_bias,
    .samples = samples_bias,
};

const tt_op_def tt_op_conv_relu = {
    .name = "conv_relu",
    .doc = "Convolution with bias, and what is positive of it.",
    .options = tt__conv_options,
    .params_bytes = sizeof(tt_conv_params),
    .flags = TT_OP_JUMPS,
    .infer = infer_relu,
    .cost = cost_relu,
    .samples = samples_relu,
};

const tt_op_def tt_op_conv_grad_x_add = {
    .name = "conv_grad_x_add",
    .doc = "Gradient of a convolution's input, added to something.",
    .options = tt__conv_options,
    .params_bytes = sizeof(tt_conv_params),
    .shape_only = 1U << TT_CA_X,
    .infer = infer_add,
    .cost = cost_add,
    .samples = samples_add,
};
