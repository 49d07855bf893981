// conv_grad - gradients of conv: of its input, its weights and its bias. Those of
// weights and bias are sums over the batch and stay wide: f64 for f64, otherwise f32.
//
// On a split spatial dimension the forward pass reads a rank's part with its halo. So
// conv_grad_x gives the part with its halo too: the overlaps are terms, which halo_add
// sums.

#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/nn/conv_common.h"
#include "ops/ops.h"

static const tt__conv_roles roles_x = {"ywx", 'x'};
static const tt__conv_roles roles_w = {"xyw", 'w'};

static tt_status check_dy(const char *op, const tt_shape *want,
                          const tt_shape *dy)
{
    if (tt_shape_same_dims(want, dy))
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "%s: dy has not the extents that the convolution of x and w "
                   "has",
                   op);
}

static tt_status infer_x(tt_op_io *io)
{
    const char *op = "conv_grad_x";
    TT_TRY(tt_infer_inputs(io, op, 3, 3));
    TT_TRY(tt_infer_float(io, op, 0));
    TT_TRY(tt__expect_dtype(io, op, 1, io->in[0].dtype, "w"));
    tt_shape y;
    TT_TRY(
        tt__conv_infer(op, io->params, &io->in[2].shape, &io->in[1].shape, &y));
    TT_TRY(check_dy(op, &y, &io->in[0].shape));
    io->n_out = 1;
    io->out[0].dtype = io->in[0].dtype;
    io->out[0].shape = io->in[2].shape;
    return TT_OK;
}

static void shard_x(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__conv_shard(io, &roles_x, axis_size, sigs);
}

static void cost_x(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt_cost_io(io, 4, cost);
    tt__conv_cost(io, &roles_x, cost);
}

static const tt_sample samples_x[] = {
    {"",
     {"f batch:2 channels:2 height:3 width:3",
      "f filters:2 channels:3 kernel_h:3 kernel_w:2",
      "f batch:2 channels:3 height:5 width:4"},
     1296},
    {"stride=2 pad=1 algorithm=fft",
     {"f batch:2 channels:3 height:4 width:3",
      "f filters:3 channels:2 kernel_h:3 kernel_w:3",
      "f batch:2 channels:2 height:7 width:5"},
     2592},
    {"stride=2 pad=1 dilation=2 groups=2",
     {"f batch:3 channels:4 width:4", "f filters:4 channels:2 kernel:3",
      "f batch:3 channels:4 width:9"},
     576}, // 2 * (3*4*4) * (2*3)
    {0},
};

const tt_op_def tt_op_conv_grad_x = {
    .name = "conv_grad_x",
    .doc = "Gradient of a convolution's input.",
    .options = tt__conv_options,
    .params_bytes = sizeof(tt_conv_params),
    .shape_only = 4,
    .infer = infer_x,
    .shard = shard_x,
    .cost = cost_x,
    .samples = samples_x,
};

// ---- weights ----

static tt_status infer_w(tt_op_io *io)
{
    const char *op = "conv_grad_w";
    TT_TRY(tt_infer_inputs(io, op, 3, 3));
    TT_TRY(tt_infer_float(io, op, 0));
    TT_TRY(tt__expect_dtype(io, op, 1, io->in[0].dtype, "dy"));
    tt_shape y;
    TT_TRY(
        tt__conv_infer(op, io->params, &io->in[0].shape, &io->in[2].shape, &y));
    TT_TRY(check_dy(op, &y, &io->in[1].shape));
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[0].dtype);
    io->out[0].shape = io->in[2].shape;
    return TT_OK;
}

static void shard_w(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__conv_shard(io, &roles_w, axis_size, sigs);
}

static void cost_w(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt_cost_io(io, 4, cost);
    tt__conv_cost(io, &roles_w, cost);
}

static const tt_sample samples_w[] = {
    {"",
     {"f batch:2 channels:3 height:5 width:4",
      "f batch:2 channels:2 height:3 width:3",
      "f filters:2 channels:3 kernel_h:3 kernel_w:2"},
     1296},
    {"stride=2 pad=1 algorithm=winograd",
     {"f batch:2 channels:2 height:7 width:5",
      "f batch:2 channels:3 height:4 width:3",
      "f filters:3 channels:2 kernel_h:3 kernel_w:3"},
     2592},
    {"stride=2 pad=1 dilation=2 groups=2",
     {"f batch:3 channels:4 width:9", "f batch:3 channels:4 width:4",
      "f filters:4 channels:2 kernel:3"},
     576},
    {"stride=2 pad=3", // as the first of a network
     {"f batch:2 channels:3 height:6 width:5",
      "f batch:2 channels:8 height:3 width:3",
      "f filters:8 channels:3 kernel_h:7 kernel_w:7"},
     42336}, // 2 * (2*8*3*3) * (3*7*7)
    {"pad=1",
     {"f batch:2 channels:3 height:4 width:3",
      "f batch:2 channels:8 height:4 width:3",
      "f filters:8 channels:3 kernel_h:3 kernel_w:3"},
     10368}, // 2 * (2*8*4*3) * (3*3*3)
    {0},
};

const tt_op_def tt_op_conv_grad_w = {
    .name = "conv_grad_w",
    .doc = "Gradient of a convolution's weights.",
    .options = tt__conv_options,
    .params_bytes = sizeof(tt_conv_params),
    .shape_only = 4,
    .infer = infer_w,
    .shard = shard_w,
    .cost = cost_w,
    .samples = samples_w,
};

// ---- bias ----

static tt_status infer_b(tt_op_io *io)
{
    const char *op = "conv_grad_b";
    TT_TRY(tt_infer_inputs(io, op, 1, 2));
    TT_TRY(tt_infer_float(io, op, 0));
    const tt_shape *dy = &io->in[0].shape;
    if (dy->ndim < 3)
        return tt_fail(TT_ERR_ARG, "%s: dy needs three dimensions or more", op);
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[0].dtype);
    if (!tt_io_has(io, 1))
        return tt_shape_push_dim(&io->out[0].shape, dy, 1);
    TT_TRY(tt__expect_vector(io, op, 1, tt_shape_dim(dy, 1), "bias"));
    io->out[0].shape = io->in[1].shape;
    return TT_OK;
}

static void shard_b(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__split summed = {0, "=.", "+", NULL};
    const tt__split channels = {0, "=0", "0", NULL};
    for (int d = 0; d < io->in[0].shape.ndim; d++)
        tt__shard_dim(io, axis_size, d, d == 1 ? &channels : &summed, sigs);
}

static void cost_b(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[0]);
    tt_cost_reduction(io, 2, n, n / tt_cost_count(&io->out[0]), cost);
}

static const tt_sample samples_b[] = {
    {"", {"f batch:2 channels:3 height:5 width:4"}, 120},
    {"", {"f batch:3 channels:4 width:5", "f filters:4"}, 60},
    {0},
};

const tt_op_def tt_op_conv_grad_b = {
    .name = "conv_grad_b",
    .doc = "Gradient of a convolution's bias.",
    .shape_only = 2,
    .infer = infer_b,
    .shard = shard_b,
    .cost = cost_b,
    .samples = samples_b,
};
