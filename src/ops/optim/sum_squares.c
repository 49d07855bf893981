// sum_squares - the sum of the squares of all elements of its inputs; total, the
// sum of scalars.
//
// The norm of a model is one sum_squares per tensor and one total. Tensors that are
// split over ranks give terms of a sum, so one all-reduce of a single number ends it.
//
//   flops   sum_squares 2 per element; total 1 per addition

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/optim/clip.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "sum_squares", 1, INT32_MAX));
    for (int i = 0; i < io->n_in; i++)
        TT_TRY(tt_infer_float(io, "sum_squares", i));
    tt_infer_add(io, tt_dtype_master(io->in[0].dtype), &(tt_shape){0});
    return TT_OK;
}

static tt_status infer_total(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "total", 1, INT32_MAX));
    for (int i = 0; i < io->n_in; i++)
        TT_TRY(tt_infer_float_scalar(io, "total", i));
    tt_infer_add(io, tt_dtype_master(io->in[0].dtype), &(tt_shape){0});
    return TT_OK;
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    // A whole input among split ones would be counted by every rank.
    for (int i = 1; i < io->n_in; i++)
        if (!tt_shape_equal(&io->in[0].shape, &io->in[i].shape))
            return;
    for (int f = 0; f < io->in[0].shape.n_factors; f++) {
        if (!tt_can_split(&io->in[0], f, axis_size))
            continue;
        tt_sig *sig = tt_sigs_add(sigs);
        if (sig == NULL)
            return;
        for (int i = 0; i < tt_shard_n_in(io); i++)
            sig->in[i] = tt_place_split(f);
        sig->out[0] = tt_place_partial(TT_SUM);
    }
}

static void shard_total(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    (void)axis_size;
    tt_shard_partial(io, ~0u, TT_SUM, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    double n = 0;
    for (int i = 0; i < io->n_in; i++)
        n += tt_cost_count(&io->in[i]);
    tt_cost_reduction(io, 0, 2 * n, n, cost_out);
}

static void cost_total(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_reduction(io, 0, io->n_in - 1, io->n_in, cost_out);
    cost_out->work = io->n_in;
}

tt_val tt_sum_squares(tt_builder *b, tt_val x)
{
    return tt_call(b, &tt_op_sum_squares, NULL, &x, 1, NULL);
}

tt_val tt_total(tt_builder *b, const tt_val *x, int n)
{
    return tt_call(b, &tt_op_total, NULL, x, n, NULL);
}

static const tt_sample samples[] = {
    {"", {"f a:3 b:5"}, 30},
    {"", {"f a:3 b:5", "f c:7", "f"}, 46},
    {"", {"f a:4.b:3", "f a:4.b:3"}, 48},
    {0},
};

static const tt_sample samples_total[] = {
    {"", {"m"}, 0},
    {"", {"m", "m", "m"}, 2},
    {0},
};

const tt_op_def tt_op_sum_squares = {
    .name = "sum_squares",
    .doc = "The sum of the squares of all elements.",
    .infer = infer,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_total = {
    .name = "total",
    .doc = "The sum of scalars.",
    .flags = TT_OP_SUMS,
    .infer = infer_total,
    .shard = shard_total,
    .cost = cost_total,
    .samples = samples_total,
};
