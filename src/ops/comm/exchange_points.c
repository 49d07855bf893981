// exchange_points - fetch, agree, offer, tally.
//
//   fetch(w) -> w            read a weight             alias
//   agree(w) -> w            replicas agree on it      alias
//   offer(~w, g...) -> g     the finished gradient: the sum of the g's, over
//                            micro-batches too, in the shape of w
//   tally(x) -> x            sum over micro-batches
//
//   flops   offer: one addition per element and gradient after the first

#include "ops/comm/exchange_points.h"

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

static tt_status infer_same(tt_op_io *io, const char *op)
{
    TT_TRY(tt_infer_inputs(io, op, 1, 1));
    tt_infer_add(io, io->in[0].dtype, &io->in[0].shape);
    return TT_OK;
}

static tt_status infer_fetch(tt_op_io *io)
{
    return infer_same(io, "fetch");
}

static tt_status infer_agree(tt_op_io *io)
{
    return infer_same(io, "agree");
}

static tt_status infer_tally(tt_op_io *io)
{
    return infer_same(io, "tally");
}

static tt_status infer_offer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "offer", 2, INT32_MAX));
    for (int i = 1; i < io->n_in; i++) {
        TT_TRY(tt_infer_float(io, "offer", i));
        TT_TRY(tt_infer_same_dims(io, "offer", 0, i));
    }
    tt_infer_add(io, tt_dtype_master(io->in[0].dtype), &io->in[0].shape);
    return TT_OK;
}

static tt_status grad_identity(tt_builder *b, const tt_node *node,
                               const tt_val *dout, const bool *need,
                               tt_val *din)
{
    (void)node;
    if (need[0])
        din[0] = dout[0];
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, 1, TT_SUM, sigs);
}

static void shard_offer(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, ~1u, TT_SUM, sigs);
}

static void cost_alias(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)io;
    (void)axis_size;
    cost->depth = 1;
}

static void cost_offer(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const double n_terms = io->n_in - 1;
    tt_cost_reduction(io, 1, (n_terms - 1) * tt_cost_count(&io->out[0]),
                      n_terms, cost);
    cost->work = n_terms * tt_cost_count(&io->out[0]);
}

tt_val tt_agree(tt_builder *b, tt_val w)
{
    return tt_call(b, &tt_op_agree, NULL, &w, 1, NULL);
}

tt_val tt_tally(tt_builder *b, tt_val x)
{
    return tt_call(b, &tt_op_tally, NULL, &x, 1, NULL);
}

static const tt_sample samples[] = {
    {"", {"f a:3 b:5"}, 0},
    {"", {"f"}, 0},
    {0},
};

static const tt_sample samples_offer[] = {
    {"", {"f a:3 b:5", "f a:3 b:5"}, 0},
    {"", {"f a:7", "f a:7", "f a:7", "f a:7"}, 2 * 7},
    {"", {"f a:2.c:3 b:3", "f a:2.c:3 b:3", "f x:2.y:3 z:3"}, 18},
    {0},
};

const tt_op_def tt_op_fetch = {
    .name = "fetch",
    .doc = "Reads a weight.",
    .flags = TT_OP_ALIAS,
    .infer = infer_fetch,
    .grad = grad_identity,
    .shard = shard,
    .cost = cost_alias,
    .samples = samples,
};

const tt_op_def tt_op_agree = {
    .name = "agree",
    .doc = "Replicas agree on an updated weight.",
    .flags = TT_OP_ALIAS,
    .infer = infer_agree,
    .grad = grad_identity,
    .shard = shard,
    .cost = cost_alias,
    .samples = samples,
};

const tt_op_def tt_op_tally = {
    .name = "tally",
    .doc = "Sums a value over micro-batches.",
    .flags = TT_OP_ACCUMULATE | TT_OP_ELEMENTWISE,
    .infer = infer_tally,
    .grad = grad_identity,
    .shard = shard,
    .cost = tt_cost_moved,
    .samples = samples,
};

const tt_op_def tt_op_offer = {
    .name = "offer",
    .doc = "The finished gradient of a weight: the sum of its parts.",
    .flags = TT_OP_ACCUMULATE | TT_OP_ELEMENTWISE | TT_OP_SUMS,
    .shape_only = 1,
    .infer = infer_offer,
    .shard = shard_offer,
    .cost = cost_offer,
    .samples = samples_offer,
};
