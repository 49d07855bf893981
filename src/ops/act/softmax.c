// softmax - of each row (the last dimension).
//
//   y = exp(x - max) / sum       dx = y * (dy - sum(y * dy))
//
//   flops   forward 4 per element (subtract, exponential, add, multiply),
//           backward 4

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/attention.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "softmax", 1, 1));
    TT_TRY(tt_infer_float(io, "softmax", 0));
    if (io->in[0].shape.ndim < 1)
        return tt_fail(TT_ERR_ARG, "softmax: the input is a scalar");
    io->n_out = 1;
    io->out[0].dtype = io->in[0].dtype;
    io->out[0].shape = io->in[0].shape;
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    if (need[0])
        din[0] = tt_call(b, &tt_op_softmax_grad, NULL,
                         (tt_val[]){node->out[0], dout[0]}, 2, NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){0, "==", "=", NULL}, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_reduction(io, 0, 4 * tt_cost_count(&io->in[0]),
                      (double)tt__last(&io->in[0].shape), cost_out);
}

static tt_status infer_grad(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "softmax_grad", 2, 2));
    TT_TRY(tt_infer_same_dims(io, "softmax_grad", 0, 1));
    io->n_out = 1;
    io->out[0].dtype = io->in[0].dtype;
    io->out[0].shape = io->in[0].shape;
    return TT_OK;
}

static const tt_sample samples[] = {
    {"", {"f batch:3 classes:7"}, 84},
    {"", {"f batch:2 heads:3 seq:5"}, 120},
    {0},
};

static const tt_sample samples_grad[] = {
    {"", {"f+ batch:3 classes:7", "f batch:3 classes:7"}, 84},
    {"", {"f+ batch:2 heads:3 seq:5", "f batch:2 heads:3 seq:5"}, 120},
    {0},
};

const tt_op_def tt_op_softmax = {
    .name = "softmax",
    .doc = "Exponentials of each row, divided by their sum.",
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_softmax_grad = {
    .name = "softmax_grad",
    .doc = "Gradient of softmax.",
    .infer = infer_grad,
    .shard = shard,
    .cost = cost,
    .samples = samples_grad,
};
