// conv - convolution: x [n, c, space...], w [o, c / groups, kernel...], bias [o].
//
// The result has x's names; its channels are w's filters. flops count the
// products, 2 per multiply-add; see conv_common.c for work and depth.

#include "ops/nn/conv.h"

#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/nn/conv_common.h"
#include "ops/ops.h"

static const tt__conv_roles roles = {"xwb", 'y'};

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "conv", 2, 3));
    TT_TRY(tt_infer_float(io, "conv", 0));
    const tt_dtype dtype = io->in[0].dtype;
    TT_TRY(tt__expect_dtype(io, "conv", 1, dtype, "w"));
    io->n_out = 1;
    io->out[0].dtype = ((const tt_conv_params *)io->params)->wide
                           ? tt_dtype_master(dtype)
                           : dtype;
    TT_TRY(tt__conv_infer("conv", io->params, &io->in[0].shape,
                          &io->in[1].shape, &io->out[0].shape));
    if (!tt_io_has(io, 2))
        return TT_OK;
    TT_TRY(tt__expect_weight(io, "conv", 2, dtype, "bias"));
    return tt__expect_vector(io, "conv", 2, tt_shape_dim(&io->in[1].shape, 0),
                             "bias");
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_val x = node->in[0];
    const tt_val w = node->in[1];
    if (need[0])
        din[0] = tt_call(b, &tt_op_conv_grad_x, node->params,
                         (const tt_val[]){dout[0], w, x}, 3, NULL);
    if (need[1])
        din[1] = tt_call(b, &tt_op_conv_grad_w, node->params,
                         (const tt_val[]){x, dout[0], w}, 3, NULL);
    if (node->n_in > 2 && need[2])
        din[2] = tt_call(b, &tt_op_conv_grad_b, NULL,
                         (const tt_val[]){dout[0], node->in[2]}, 2, NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__conv_shard(io, &roles, axis_size, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_io(io, 0, cost_out);
    tt__conv_cost(io, &roles, cost_out);
    if (tt_io_has(io, 2)) {
        cost_out->work += tt_cost_count(&io->out[0]);
        cost_out->depth += 1;
    }
}

static const tt_sample samples[] = {
    {"",
     {"f batch:2 channels:3 height:5 width:4",
      "f filters:2 channels:3 kernel_h:3 kernel_w:2", "f filters:2"},
     1296}, // 2 * (2*2*3*3) * (3*3*2)
    {"stride=2 pad=1",
     {"f batch:2 channels:2 height:7 width:5",
      "f filters:3 channels:2 kernel_h:3 kernel_w:3"},
     2592}, // 2 * (2*3*4*3) * (2*3*3)
    {"stride=2,1 pad=2,0 dilation=2,1 groups=2 algorithm=im2col",
     {"f batch:1 channels:4 height:6 width:3",
      "f filters:4 channels:2 kernel_h:3 kernel_w:2", "f filters:4"},
     576}, // 2 * (1*4*3*2) * (2*3*2)
    {"algorithm=winograd",
     {"f batch:1 channels:1 height:4 width:4",
      "f filters:1 channels:1 kernel_h:3 kernel_w:2"},
     72},
    {"stride=2,1 algorithm=winograd",
     {"f batch:2 channels:1 height:5 width:3",
      "f filters:3 channels:1 kernel_h:3 kernel_w:3"},
     216},
    {"dilation=2,1 algorithm=winograd",
     {"f batch:2 channels:1 height:6 width:4",
      "f filters:3 channels:1 kernel_h:3 kernel_w:3"},
     432},
    {"pad=1 algorithm=winograd",
     {"f batch:2 channels:2 height:4 width:4",
      "f filters:2 channels:2 kernel_h:3 kernel_w:3"},
     2304}, // 2 * (2*2*4*4) * (2*3*3)
    {"pad=1 wide=true",
     {"f batch:2 channels:3 height:5 width:4",
      "f filters:2 channels:3 kernel_h:3 kernel_w:3", "f filters:2"},
     4320}, // 2 * (2*2*5*4) * (3*3*3)
    {"stride=3 pad=2 algorithm=fft",
     {"f batch:3 channels:2 width:9", "f filters:2 channels:2 kernel:4"},
     384}, // 2 * (3*2*4) * (2*4)
    {"stride=1,2,1 pad=1 groups=3",
     {"f batch:2 channels:3 depth:3 height:4 width:3",
      "f filters:3 channels:1 kernel_d:2 kernel_h:2 kernel_w:2"},
     4608},            // 2 * (2*3*4*3*4) * (1*2*2*2)
    {"stride=2 pad=3", // as the first of a network
     {"f batch:2 channels:3 height:6 width:5",
      "f filters:8 channels:3 kernel_h:7 kernel_w:7"},
     42336}, // 2 * (2*8*3*3) * (3*7*7)
    {0},
};

const tt_op_def tt_op_conv = {
    .name = "conv",
    .doc = "Convolution in one to three dimensions.",
    .options = tt__conv_options,
    .params_bytes = sizeof(tt_conv_params),
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};
