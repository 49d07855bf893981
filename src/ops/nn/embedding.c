// embedding - rows of a table chosen by ids; its gradient adds rows up.
//
//   y[...] = w[ids[...]]            dw[v] = sum of dy over the places of id v
//
//   flops   none forward; one addition per element of dy backward
//   shard   by ids, by columns; by vocabulary: ids of other ranks give zero, so y
//           is a partial sum

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/embed.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { IDS, W };        // of embedding
enum { GIDS, GDY, GW }; // of embedding_grad

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "embedding", 2, 2));
    TT_TRY(tt__want_dtype(io, IDS, TT_I32, "embedding"));
    TT_TRY(tt_infer_float(io, "embedding", W));
    if (io->in[W].shape.ndim != 2)
        return tt_fail(TT_ERR_ARG,
                       "embedding: the table has %d dimensions, "
                       "not 2",
                       io->in[W].shape.ndim);
    io->n_out = 1;
    io->out[0].dtype = io->in[W].dtype;
    io->out[0].shape = io->in[IDS].shape;
    return tt_shape_push_dim(&io->out[0].shape, &io->in[W].shape, 1);
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    if (need[W])
        din[W] =
            tt_call(b, &tt_op_embedding_grad, NULL,
                    (tt_val[]){node->in[IDS], dout[0], node->in[W]}, 3, NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    for (int d = 0; d < io->in[IDS].shape.ndim; d++)
        tt__shard_dim(io, axis_size, d, &(tt__split){IDS, "=.", "=", NULL},
                      sigs);
    tt__shard_dim(io, axis_size, 1, &(tt__split){W, ".1", "z", NULL}, sigs);
    tt__shard_dim(io, axis_size, 0, &(tt__split){W, ".0", "+", NULL}, sigs);
}

// Only the chosen rows of the table are read.
static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_move(io, 1U << W, cost_out);
    cost_out->bytes += tt_cost_bytes(&io->out[0]);
}

static tt_status infer_grad(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "embedding_grad", 3, 3));
    TT_TRY(tt__want_dtype(io, GIDS, TT_I32, "embedding_grad"));
    TT_TRY(tt_infer_float(io, "embedding_grad", GDY));
    const tt_shape *w = &io->in[GW].shape;
    tt_shape dy = io->in[GIDS].shape;
    if (w->ndim != 2)
        return tt_fail(TT_ERR_ARG,
                       "embedding_grad: the table has %d "
                       "dimensions, not 2",
                       w->ndim);
    TT_TRY(tt_shape_push_dim(&dy, w, 1));
    if (!tt_shape_same_dims(&dy, &io->in[GDY].shape))
        return tt_fail(TT_ERR_ARG,
                       "embedding_grad: dy must have a row for each id");
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[GDY].dtype);
    io->out[0].shape = *w;
    return TT_OK;
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    for (int d = 0; d < io->in[GIDS].shape.ndim; d++)
        tt__shard_dim(io, axis_size, d, &(tt__split){GIDS, "==.", "+", NULL},
                      sigs);
    tt__shard_dim(io, axis_size, 1, &(tt__split){GW, ".z1", "1", NULL}, sigs);
    tt__shard_dim(io, axis_size, 0, &(tt__split){GW, "..0", "0", NULL}, sigs);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_reduction(io, 1U << GW, tt_cost_count(&io->in[GDY]),
                      tt_cost_count(&io->in[GIDS]), cost_out);
}

static const tt_sample samples[] = {
    {"", {"i<7 batch:2 seq:5", "f vocab:7 embed:3"}, 0},
    {"", {"i<5 batch:3", "f vocab:5 heads:3.head:2"}, 0},
    {0},
};

static const tt_sample samples_grad[] = {
    {"",
     {"i<7 batch:2 seq:5", "f batch:2 seq:5 embed:3", "f vocab:7 embed:3"},
     30},
    {"", {"i<5 batch:3", "f batch:3 embed:4", "f vocab:5 embed:4"}, 12},
    // Few ids, each of which is there often.
    {"", {"i<2 batch:9", "f batch:9 embed:8", "f vocab:3 embed:8"}, 72},
    {"", {"i<1 batch:64", "f batch:64 embed:8", "f vocab:3 embed:8"}, 512},
    {0},
};

const tt_op_def tt_op_embedding = {
    .name = "embedding",
    .doc = "Rows of a table, chosen by ids.",
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_embedding_grad = {
    .name = "embedding_grad",
    .doc = "Gradient of embedding's table.",
    .shape_only = 1U << GW,
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};
