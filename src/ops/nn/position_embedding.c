// position_embedding - adds to each row the table's row of its position in the
// whole sequence.
//
//   y[.., s, :] = x[.., s, :] + w[position + s, :]
//   dx = dy,  dw[position + s] = sum of dy[.., s, :]
//
//   flops   one addition per element, both ways
//   shard   batch, seq, embed; a split sequence reads its own positions

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/embed.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { X, W, POSITION };

static tt_status check(const tt_op_io *io, const char *name)
{
    TT_TRY(tt_infer_inputs(io, name, 2, 3));
    TT_TRY(tt_infer_float(io, name, X));
    const tt_shape *x = &io->in[X].shape, *w = &io->in[W].shape;
    if (x->ndim < 2 || w->ndim != 2)
        return tt_fail(TT_ERR_ARG,
                       "%s: needs rows [.., seq, embed] and a table "
                       "[positions, embed]",
                       name);
    if (tt__last(x) != tt__last(w))
        return tt_fail(TT_ERR_ARG,
                       "%s: rows have %lld entries, the table's %lld", name,
                       (long long)tt__last(x), (long long)tt__last(w));
    if (tt_shape_dim(x, x->ndim - 2) > tt_shape_dim(w, 0))
        return tt_fail(TT_ERR_ARG, "%s: %lld positions, but the table has %lld",
                       name, (long long)tt_shape_dim(x, x->ndim - 2),
                       (long long)tt_shape_dim(w, 0));
    return tt_io_has(io, POSITION) ? tt__want_dtype(io, POSITION, TT_I64, name)
                                   : TT_OK;
}

static tt_status infer(tt_op_io *io)
{
    TT_TRY(check(io, "position_embedding"));
    io->n_out = 1;
    io->out[0].dtype = io->in[X].dtype;
    io->out[0].shape = io->in[X].shape;
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_val position =
        node->n_in > POSITION ? node->in[POSITION] : TT_NONE;
    if (need[X])
        din[X] = dout[0];
    if (need[W])
        din[W] = tt_call(b, &tt_op_position_embedding_grad, NULL,
                         (tt_val[]){dout[0], node->in[W], position}, 3, NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){X, "=..", "=", NULL}, sigs);
    tt__shard_last(io, axis_size, &(tt__split){X, "zz.", "z", NULL}, sigs);
}

static tt_status infer_grad(tt_op_io *io)
{
    TT_TRY(check(io, "position_embedding_grad"));
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[X].dtype);
    io->out[0].shape = io->in[W].shape;
    return TT_OK;
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){X, "=..", "+", NULL}, sigs);
    tt__shard_last(io, axis_size, &(tt__split){X, "zz.", "z", NULL}, sigs);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_shape *x = &io->in[X].shape;
    const double n = tt_cost_count(&io->in[X]);
    const double row = (double)(tt__last(x) * tt_shape_dim(x, x->ndim - 2));
    tt_cost_reduction(io, 1U << W, n, n / row, cost_out);
}

tt_val tt_position_embedding(tt_builder *b, tt_val x, tt_val w, tt_val position)
{
    return tt_call(b, &tt_op_position_embedding, NULL,
                   (tt_val[]){x, w, position}, tt_is(position) ? 3 : 2, NULL);
}

static const tt_sample samples[] = {
    {"", {"f batch:3 seq:5 embed:4", "f positions:7 embed:4"}, 60},
    {"", {"f seq:5 embed:3", "f positions:9 embed:3", "I=3"}, 15},
    {0},
};

const tt_op_def tt_op_position_embedding = {
    .name = "position_embedding",
    .doc = "Add the table's row of each position.",
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples,
};

const tt_op_def tt_op_position_embedding_grad = {
    .name = "position_embedding_grad",
    .doc = "Gradient of position_embedding's table.",
    .shape_only = 1U << W,
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples,
};
