// broadcast - x repeated to the shape of `like`; sum_to, its adjoint, sums what
// was repeated.
//
//   dims empty   aligned at the last dim: [c] and [b:1 c] fit [a b c]
//   dims=1       the smaller operand lacks dim 1 of the larger: [a c]
//
//   flops   broadcast none; sum_to one addition per element of x that does not
//           start a sum

#include "ops/arith.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

// ---- which dims correspond -----------------------------------------------

static bool lacks(const tt_i64s *lacking, int d)
{
    for (int i = 0; i < lacking->n; i++)
        if (lacking->v[i] == d)
            return true;
    return false;
}

bool tt_broadcast_map(const tt_i64s *lacking, const tt_shape *small,
                      const tt_shape *big, int map_out[TT_MAX_DIMS])
{
    const int missing = big->ndim - small->ndim;
    int next = 0;
    for (int d = 0; d < big->ndim; d++) {
        const bool is_missing =
            lacking->n > 0 ? lacks(lacking, d) : d < missing;
        map_out[d] = is_missing ? -1 : next++;
        if (is_missing)
            continue;
        if (next > small->ndim)
            return false;
        const int64_t extent = tt_shape_dim(small, map_out[d]);
        if (extent != 1 && extent != tt_shape_dim(big, d))
            return false;
    }
    return next == small->ndim;
}

static tt_status infer(tt_op_io *io, const char *op, int small)
{
    const tt_broadcast_params *p = io->params;
    int map[TT_MAX_DIMS];
    TT_TRY(tt_infer_inputs(io, op, 2, 2));
    TT_TRY(tt_infer_float(io, op, 0));
    TT_TRY(tt_infer_float(io, op, 1));
    const tt_shape *a = &io->in[small].shape, *b = &io->in[1 - small].shape;
    if (!tt_broadcast_map(&p->dims, a, b, map))
        return tt_infer_fail_shapes(op, "the first does not broadcast", a, b);
    tt_infer_add(io, io->in[1].dtype, &io->in[1].shape);
    return TT_OK;
}

static tt_status infer_broadcast(tt_op_io *io)
{
    return infer(io, "broadcast", 0);
}

static tt_status infer_sum_to(tt_op_io *io)
{
    return infer(io, "sum_to", 1);
}

// ---- gradients -----------------------------------------------------------

static tt_status grad_broadcast(tt_builder *b, const tt_node *node,
                                const tt_val *dout, const bool *need,
                                tt_val *din)
{
    if (need[0])
        din[0] = tt_call(b, &tt_op_sum_to, node->params,
                         (tt_val[]){dout[0], node->in[0]}, 2, NULL);
    return tt_builder_status(b);
}

static tt_status grad_sum_to(tt_builder *b, const tt_node *node,
                             const tt_val *dout, const bool *need, tt_val *din)
{
    if (need[0])
        din[0] = tt_call(b, &tt_op_broadcast, node->params,
                         (tt_val[]){dout[0], node->in[0]}, 2, NULL);
    return tt_builder_status(b);
}

// ---- placements ----------------------------------------------------------

// One signature per factor of the larger operand. Where the smaller one has no
// such factor it is whole: every part of the result needs it (broadcast), or
// every rank has a term of it (sum_to).
static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs, bool is_sum)
{
    const tt_broadcast_params *p = io->params;
    const tt_type *big = &io->in[is_sum ? 0 : 1];
    const tt_type *small = &io->in[is_sum ? 1 : 0];
    int map[TT_MAX_DIMS];
    (void)tt_broadcast_map(&p->dims, &small->shape, &big->shape, map);
    for (int f = 0; f < big->shape.n_factors; f++) {
        const int dim = map[tt_shape_dim_of(&big->shape, f)];
        const int twin = tt_shard_twin_at(&big->shape, f, &small->shape, dim);
        if (!tt_can_split(big, f, axis_size) || twin == TT_TWIN_NONE)
            continue;
        tt_sig *sig = tt_sigs_add(sigs);
        if (sig == NULL)
            return;
        const tt_place whole = tt_place_split(f);
        const tt_place part =
            twin >= 0 ? tt_place_split(twin) : tt_place_replicate();
        sig->in[0] = is_sum ? whole : part;
        sig->in[1] = is_sum ? part : whole;
        sig->out[0] = sig->in[1];
        if (is_sum && twin < 0)
            sig->out[0] = tt_place_partial(TT_SUM);
    }
    tt_shard_partial(io, 1, TT_SUM, sigs);
}

static void shard_broadcast(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    shard(io, axis_size, sigs, false);
    tt_shard_partial(io, 1, TT_MAX, sigs);
}

static void shard_sum_to(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    shard(io, axis_size, sigs, true);
}

// ---- cost ----------------------------------------------------------------

static void cost_sum_to(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[0]);
    const double n_sums = tt_cost_count(&io->out[0]);
    tt_cost_reduction(io, 2, n - n_sums, n / n_sums, cost);
    cost->work = n;
}

tt_val tt_broadcast(tt_builder *b, tt_val x, tt_val like)
{
    return tt_call(b, &tt_op_broadcast, NULL, (tt_val[]){x, like}, 2, NULL);
}

tt_val tt_sum_to(tt_builder *b, tt_val x, tt_val like)
{
    return tt_call(b, &tt_op_sum_to, NULL, (tt_val[]){x, like}, 2, NULL);
}

tt_val tt_sum_to_like(tt_builder *b, tt_val x, tt_val like)
{
    const tt_type *from = tt_type_of(b, x), *to = tt_type_of(b, like);
    if (from->dtype == to->dtype &&
        tt_shape_same_dims(&from->shape, &to->shape))
        return x;
    return tt_sum_to(b, x, like);
}

static const tt_opt options[] = {
    {"dims", NULL, "dims of the larger operand that the smaller one lacks",
     TT_OPT_I64S, .offset = offsetof(tt_broadcast_params, dims)},
    {0},
};

static const tt_sample samples_broadcast[] = {
    {"", {"f c:5", "f a:2 b:3 c:5"}, 0},
    {"", {"f b:3 c:1", "f a:2 b:3 c:5"}, 0},
    {"dims=1", {"f a:2 c:5", "f a:2 b:3 c:5"}, 0},
    {"", {"f", "f a:2.d:2 b:3"}, 0},
    {0},
};

static const tt_sample samples_sum_to[] = {
    {"", {"f a:2 b:3 c:5", "f c:5"}, 25},
    {"", {"f a:2 b:3 c:5", "f b:3 c:1"}, 27},
    {"dims=1", {"f a:2 b:3 c:5", "f a:2 c:5"}, 20},
    {"", {"f a:2.d:2 b:3", "f"}, 11},
    {"", {"f a:2 b:3", "f a:2 b:3"}, 0},
    {0},
};

const tt_op_def tt_op_broadcast = {
    .name = "broadcast",
    .doc = "A value repeated to a larger shape.",
    .options = options,
    .params_bytes = sizeof(tt_broadcast_params),
    .shape_only = 2,
    .infer = infer_broadcast,
    .grad = grad_broadcast,
    .shard = shard_broadcast,
    .cost = tt_cost_moved,
    .samples = samples_broadcast,
};

const tt_op_def tt_op_sum_to = {
    .name = "sum_to",
    .doc = "A value summed to a smaller shape.",
    .options = options,
    .params_bytes = sizeof(tt_broadcast_params),
    .shape_only = 2,
    .infer = infer_sum_to,
    .grad = grad_sum_to,
    .shard = shard_sum_to,
    .cost = cost_sum_to,
    .samples = samples_sum_to,
};
