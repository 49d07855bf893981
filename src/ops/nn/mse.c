// mse - squared differences, summed; count is the number of elements. A weight per
// entry of dim 0 scales both, so padding has weight 0.
//
//   sum = sum(weight * (x - target)^2)    dx = 2 dsum weight (x - target)
//
//   flops   forward 3 per element (4 with weight), backward 2 (3)

#include "ops/arith.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/loss.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { X, TARGET, WEIGHT };               // of mse
enum { G_X, G_TARGET, G_DSUM, G_WEIGHT }; // of mse_grad

static tt_status check(const tt_op_io *io, int weight, const char *name)
{
    TT_TRY(tt_infer_float(io, name, X));
    TT_TRY(tt_infer_same_dims(io, name, X, TARGET));
    if (!tt_io_has(io, weight))
        return TT_OK;
    const tt_shape *x = &io->in[X].shape, *w = &io->in[weight].shape;
    if (w->ndim != 1 || x->ndim < 1 || tt_shape_dim(w, 0) != tt_shape_dim(x, 0))
        return tt_fail(TT_ERR_ARG,
                       "%s: needs one weight per entry of dimension 0", name);
    return TT_OK;
}

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "mse", 2, 3));
    TT_TRY(check(io, WEIGHT, "mse"));
    io->n_out = 2;
    for (int i = 0; i < 2; i++)
        io->out[i].dtype = tt_dtype_master(io->in[X].dtype);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_val weight = node->n_in > WEIGHT ? node->in[WEIGHT] : TT_NONE;
    if (tt_is(weight) && need[WEIGHT])
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "mse: weights cannot be differentiated");
    if (!need[X] && !need[TARGET])
        return TT_OK;
    const tt_val dx = tt_call(
        b, &tt_op_mse_grad, NULL,
        (tt_val[]){node->in[X], node->in[TARGET], dout[0], weight}, 4, NULL);
    if (need[X])
        din[X] = dx;
    if (need[TARGET])
        din[TARGET] = tt_scale(b, dx, -1);
    return tt_builder_status(b);
}

// Splits along dim 0, where weights are, and along the others.
static void shard_both(const tt_op_io *io, int axis_size,
                       const tt__split *first, const tt__split *others,
                       tt_sigs *sigs)
{
    tt__shard_dim(io, axis_size, 0, first, sigs);
    for (int d = 1; d < io->in[X].shape.ndim; d++)
        tt__shard_dim(io, axis_size, d, others, sigs);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    shard_both(io, axis_size, &(tt__split){X, "===", "++", NULL},
               &(tt__split){X, "==.", "++", NULL}, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[X]);
    tt_cost_reduction(io, 0, (tt_io_has(io, WEIGHT) ? 4 : 3) * n, n, cost_out);
}

static tt_status infer_grad(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "mse_grad", 3, 4));
    TT_TRY(check(io, G_WEIGHT, "mse_grad"));
    if (io->in[G_DSUM].shape.ndim != 0)
        return tt_fail(TT_ERR_ARG, "mse_grad: dsum is not a scalar");
    io->n_out = 1;
    io->out[0].dtype = io->in[X].dtype;
    io->out[0].shape = io->in[X].shape;
    return TT_OK;
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    shard_both(io, axis_size, &(tt__split){X, "==.=", "=", NULL},
               &(tt__split){X, "==..", "=", NULL}, sigs);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_elementwise(io, 0, tt_io_has(io, G_WEIGHT) ? 3 : 2, cost_out);
}

tt_loss tt_mse(tt_builder *b, tt_val x, tt_val target, tt_val weight)
{
    tt_val out[TT_MAX_OUT];
    tt_call(b, &tt_op_mse, NULL, (tt_val[]){x, target, weight}, 3, out);
    return (tt_loss){out[0], out[1]};
}

static const tt_sample samples[] = {
    {"", {"f batch:3 embed:7", "f batch:3 embed:7"}, 63},
    {"",
     {"f batch:3 seq:2 embed:3", "f batch:3 seq:2 embed:3", "=0.5 batch:3"},
     72},
    {0},
};

static const tt_sample samples_grad[] = {
    {"", {"f batch:3 embed:7", "f batch:3 embed:7", "m"}, 42},
    {"",
     {"f batch:3 seq:2 embed:3", "f batch:3 seq:2 embed:3", "m", "m+ batch:3"},
     54},
    {0},
};

const tt_op_def tt_op_mse = {
    .name = "mse",
    .doc = "Squared differences: sum and count.",
    .no_grad = 2,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_mse_grad = {
    .name = "mse_grad",
    .doc = "Gradient of mse's first input.",
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};
