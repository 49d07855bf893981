// avg_pool - the mean of the entries under each window. Padding counts as zeros
// (count_pad, PyTorch's default) or not at all; then windows at the edges divide by
// fewer entries. At a seam between ranks nothing is padding: the halo has a neighbour's
// entries.
//
// flops: one addition per entry of the window; so has the gradient.

#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/nn/pool_common.h"
#include "ops/ops.h"

static const tt__pool_roles roles = {"x", "y"};
static const tt__pool_roles roles_grad = {"yx", "x"};

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "avg_pool", 1, 1));
    TT_TRY(tt_infer_float(io, "avg_pool", 0));
    io->n_out = 1;
    io->out[0].dtype = io->in[0].dtype;
    return tt__pool_infer("avg_pool", io->params, &io->in[0].shape,
                          &io->out[0].shape);
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_val in[] = {dout[0], node->in[0]};
    if (need[0])
        din[0] = tt_call(b, &tt_op_avg_pool_grad, node->params, in, 2, NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__pool_shard(io, &roles, axis_size, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt__pool_volume(io->params, &io->in[0].shape);
    tt_cost_reduction(io, 0, n * tt_cost_count(&io->out[0]), n, cost_out);
}

static tt_status infer_grad(tt_op_io *io)
{
    const char *op = "avg_pool_grad";
    TT_TRY(tt_infer_inputs(io, op, 2, 2));
    TT_TRY(tt_infer_float(io, op, 0));
    tt_shape y;
    TT_TRY(tt__pool_infer(op, io->params, &io->in[1].shape, &y));
    TT_TRY(tt__expect_dims(io, op, 0, &y, "dy"));
    io->n_out = 1;
    io->out[0].dtype = io->in[0].dtype;
    io->out[0].shape = io->in[1].shape;
    return TT_OK;
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__pool_shard(io, &roles_grad, axis_size, sigs);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt__pool_volume(io->params, &io->in[1].shape);
    tt_cost_reduction(io, 2, n * tt_cost_count(&io->in[0]), n, cost_out);
}

static const tt_opt options[] = {
    {"kernel", NULL, "extents of the window, per dimension or for all",
     TT_OPT_I64S, offsetof(tt_pool_params, slide.kernel), NULL, 1, 1e6},
    {"stride", NULL, "step from output to output; none: the kernel",
     TT_OPT_I64S, offsetof(tt_pool_params, slide.stride), NULL, 1, 1e6},
    {"pad", "0", "padding around the input", TT_OPT_I64S,
     offsetof(tt_pool_params, slide.pad), NULL, 0, 1e6},
    {"count_pad", "true", "padding counts as zeros", TT_OPT_BOOL,
     offsetof(tt_pool_params, count_pad), NULL, 0, 0},
    {0},
};

static const tt_sample samples[] = {
    {"kernel=2", {"f batch:2 channels:3 height:4 width:5"}, 96}, // 24 * 4
    {"kernel=3 stride=2 pad=1",
     {"f batch:2 channels:2 height:7 width:5"},
     432}, // 48 * 9
    {"kernel=3,2 stride=1,2 pad=1,1 count_pad=false",
     {"f batch:1 channels:2 height:5 width:4"},
     180}, // 30 * 6
    {"kernel=3 stride=2 pad=1 count_pad=false",
     {"f batch:3 channels:2 width:7"},
     72}, // 24 * 3
    {"kernel=2,1,2 stride=1",
     {"f batch:2 channels:1 depth:3 height:2 width:3"},
     64}, // 16 * 4
    {0},
};

static const tt_sample samples_grad[] = {
    {"kernel=2",
     {"f batch:2 channels:3 height:2 width:2",
      "f batch:2 channels:3 height:4 width:5"},
     96},
    {"kernel=3 stride=2 pad=1 count_pad=false",
     {"f batch:2 channels:2 height:4 width:3",
      "f batch:2 channels:2 height:7 width:5"},
     432},
    {0},
};

const tt_op_def tt_op_avg_pool = {
    .name = "avg_pool",
    .doc = "The mean of the entries under each window.",
    .options = options,
    .params_bytes = sizeof(tt_pool_params),
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_avg_pool_grad = {
    .name = "avg_pool_grad",
    .doc = "Gradient of avg_pool.",
    .options = options,
    .params_bytes = sizeof(tt_pool_params),
    .shape_only = 2,
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};
