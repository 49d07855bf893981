// stripe - every parts-th entry of one dim, from entry `part` on; weave puts the
// stripes of a dim together again.
//
//   stripe   "seq:7"   part=1 parts=3        entries 1 and 4
//   weave    stripes 0, 1, 2 of parts=3      0 1 2 3 4 5 6
//
// Why not slices: when the dim is split over ranks, each rank has entries of every
// stripe, so stripes are split too and no data move. A slice would lie on some ranks
// only. The rows of a stripe are evenly spaced, so strides can express it.
//
//   flops   none

#include "graph/build.h"
#include "graph/site.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "ops/shard_common.h"

// ---- shapes --------------------------------------------------------------

// Of `extent` entries, those of stripe `part` of `parts`.
static int64_t entries(int64_t extent, int64_t part, int64_t parts)
{
    return (extent - part + parts - 1) / parts;
}

static tt_status infer(tt_op_io *io)
{
    const tt_stripe_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "stripe", 1, 1));
    tt_shape shape = io->in[0].shape;
    TT_TRY(tt_infer_one_factor("stripe", &shape, p->dim));
    tt_factor *f = &shape.factor[shape.first[p->dim]];
    if (p->part < 0 || p->part >= p->parts || p->parts > f->size)
        return tt_fail(
            TT_ERR_ARG,
            "stripe: there is no stripe %lld of %lld in %lld entries",
            (long long)p->part, (long long)p->parts, (long long)f->size);
    f->size = entries(f->size, p->part, p->parts);
    tt_infer_add(io, io->in[0].dtype, &shape);
    return TT_OK;
}

static tt_status infer_weave(tt_op_io *io)
{
    const tt_weave_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "weave", 1, INT32_MAX));
    tt_shape shape = io->in[0].shape;
    TT_TRY(tt_infer_one_factor("weave", &shape, p->dim));
    const int64_t longest = tt_shape_dim(&shape, (int)p->dim);
    int64_t extent = 0;
    for (int i = 0; i < io->n_in; i++) {
        TT_TRY(tt_infer_joins(io, "weave", i, p->dim));
        const int64_t n = tt_shape_dim(&io->in[i].shape, (int)p->dim);
        if (extent > INT64_MAX - n || n > longest)
            return tt_fail(TT_ERR_ARG, "weave: stripe %d is too long", i);
        extent += n;
    }
    for (int i = 0; i < io->n_in; i++)
        if (tt_shape_dim(&io->in[i].shape, (int)p->dim) !=
            entries(extent, i, io->n_in))
            return tt_fail(TT_ERR_ARG,
                           "weave: stripe %d is not as long as that of %lld "
                           "entries",
                           i, (long long)extent);
    shape.factor[shape.first[p->dim]].size = extent;
    tt_infer_add(io, io->in[0].dtype, &shape);
    return TT_OK;
}

// ---- gradients -----------------------------------------------------------

// The other stripes of x did not take part.
static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_stripe_params p = *(const tt_stripe_params *)node->params;
    const tt_val x = node->in[0];
    tt_val *part =
        tt_arena_alloc(b->graph->arena, p.parts * (int64_t)sizeof *part);
    if (part == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < p.parts && need[0]; i++) {
        const tt_stripe_params q = {p.dim, i, p.parts};
        part[i] =
            i == p.part
                ? dout[0]
                : tt_fill(b, tt_call(b, &tt_op_stripe, &q, &x, 1, NULL), 0);
    }
    const tt_weave_params w = {p.dim};
    if (need[0])
        din[0] = tt_call(b, &tt_op_weave, &w, part, (int)p.parts, NULL);
    return tt_builder_status(b);
}

static tt_status grad_weave(tt_builder *b, const tt_node *node,
                            const tt_val *dout, const bool *need, tt_val *din)
{
    const tt_weave_params *p = node->params;
    const int64_t dim = p->dim;
    for (int i = 0; i < node->n_in; i++) {
        const tt_stripe_params q = {dim, i, node->n_in};
        if (need[i])
            din[i] = tt_call(b, &tt_op_stripe, &q, &dout[0], 1, NULL);
    }
    return tt_builder_status(b);
}

// ---- sharding ------------------------------------------------------------

// Every operand is split along its twin of factor f of output 0. Along the striped
// dim all must have as many entries on every rank; then zigzags match too if blocks
// do.
static void shard_all(const tt_op_io *io, int axis_size, int64_t dim,
                      tt_sigs *sigs)
{
    const tt_shape *y = &io->out[0].shape, *x = &io->in[0].shape;
    const int64_t parts = io->op == &tt_op_weave
                              ? io->n_in
                              : ((const tt_stripe_params *)io->params)->parts;
    const int64_t whole =
        tt_shape_dim(io->op == &tt_op_weave ? y : x, (int)dim);
    for (int f = 0; f < y->n_factors; f++) {
        const bool is_along = tt_shape_dim_of(y, f) == dim;
        tt_sig made = {.out = {tt_place_split(f)}};
        bool is_legal = is_along ? whole % (parts * axis_size) == 0
                                 : tt_can_split(&io->out[0], f, axis_size);
        made.bends = is_along && whole % (2 * parts * axis_size) == 0;
        for (int i = 0; is_legal && i < tt_shard_n_in(io); i++) {
            const tt_shape *other = &io->in[i].shape;
            if (is_along)
                made.in[i] = tt_place_split(other->first[dim]);
            else
                is_legal = tt_shard_place(y, f, &io->in[i], &made.in[i]);
        }
        tt_sig *sig = is_legal ? tt_sigs_add(sigs) : NULL;
        if (sig != NULL)
            *sig = made;
    }
    tt_shard_partial(io, ~0u, TT_SUM, sigs);
    tt_shard_partial(io, ~0u, TT_MAX, sigs);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_stripe_params *p = io->params;
    shard_all(io, axis_size, p->dim, sigs);
}

static void shard_weave(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_weave_params *p = io->params;
    shard_all(io, axis_size, p->dim, sigs);
}

// ---- cost and views ------------------------------------------------------

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    // Of the input only the stripe is read.
    cost_out->bytes = 2 * tt_cost_bytes(&io->out[0]);
    cost_out->work = tt_cost_count(&io->out[0]);
    cost_out->depth = 1;
}

static bool view(const tt_site *site, int i, int64_t *stride_out,
                 int64_t *offset_out)
{
    (void)i;
    const tt_stripe_params *p = site->params;
    const tt_operand *x = &site->in[0];
    for (int d = 0; d < x->local.shape.ndim; d++)
        stride_out[d] = x->stride[d] * (d == p->dim ? p->parts : 1);
    *offset_out = p->part * x->stride[p->dim];
    return true;
}

static bool view_weave(const tt_site *site, int i, int64_t *stride_out,
                       int64_t *offset_out)
{
    const tt_weave_params *p = site->params;
    const tt_operand *y = &site->out[0];
    for (int d = 0; d < y->local.shape.ndim; d++)
        stride_out[d] = y->stride[d] * (d == p->dim ? site->n_in : 1);
    *offset_out = i * y->stride[p->dim];
    return true;
}

static const tt_opt options[] = {
    {"dim", "0", "the dim", TT_OPT_I64,
     .offset = offsetof(tt_stripe_params, dim)},
    {"part", "0", "which stripe", TT_OPT_I64,
     .offset = offsetof(tt_stripe_params, part)},
    {"parts", "1", "how many stripes there are", TT_OPT_I64,
     .offset = offsetof(tt_stripe_params, parts), .min = 1, .max = 0},
    {0},
};

static const tt_opt options_weave[] = {
    {"dim", "0", "the dim", TT_OPT_I64,
     .offset = offsetof(tt_weave_params, dim)},
    {0},
};

static const tt_sample samples[] = {
    {"dim=1 part=2 parts=3", {"f a:4 b:7"}, 0},
    {"dim=0 part=1 parts=2", {"f a:12 b:2.c:2"}, 0},
    {"dim=1 part=0 parts=2", {"f a:2 b:8 c:3"}, 0},
    {"dim=0 parts=1", {"f a:3"}, 0},
    {0},
};

static const tt_sample samples_weave[] = {
    {"dim=1", {"f a:4 b:3", "f a:4 b:2", "f a:4 c:2"}, 0},
    {"dim=0", {"f a:6 b:2.c:4", "f a:6 b:2.c:4"}, 0},
    {"dim=1", {"f a:2 b:8 c:3", "f a:2 b:8 c:3"}, 0},
    {"dim=0", {"f a:3"}, 0},
    {0},
};

const tt_op_def tt_op_stripe = {
    .name = "stripe",
    .doc = "Every n-th entry of one dim.",
    .options = options,
    .params_bytes = sizeof(tt_stripe_params),
    .flags = TT_OP_VIEW,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .view = view,
    .samples = samples,
};

const tt_op_def tt_op_weave = {
    .name = "weave",
    .doc = "The stripes of one dim, put together.",
    .options = options_weave,
    .params_bytes = sizeof(tt_weave_params),
    .flags = TT_OP_CONCAT,
    .infer = infer_weave,
    .grad = grad_weave,
    .shard = shard_weave,
    .cost = tt_cost_moved,
    .view = view_weave,
    .samples = samples_weave,
};
