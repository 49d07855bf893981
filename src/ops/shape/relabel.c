// relabel - the same elements under other names: relabel makes the factors of one
// dim into a single one with a new name; match takes all names and factors from
// another value of the same extents (gradients of layers whose weights name
// their dims differently). Views: no element moves.
//
//   relabel dim=1 name=seq   "batch:2 height:3.width:4 embed:5"
//                         -> "batch:2 seq:12 embed:5"
//
//   flops   none

#include "ops/shape/relabel.h"

#include "graph/site.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

#include <string.h>

static tt_status infer(tt_op_io *io)
{
    const tt_relabel_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "relabel", 1, 1));
    const tt_shape *x = &io->in[0].shape;
    tt_shape shape = {0};
    if (p->dim < 0 || p->dim >= x->ndim)
        return tt_fail(TT_ERR_ARG, "relabel: dim %lld of %d", (long long)p->dim,
                       x->ndim);
    for (int d = 0; d < x->ndim; d++)
        TT_TRY(d == p->dim ? tt_shape_push(&shape, p->name, tt_shape_dim(x, d))
                           : tt_shape_push_dim(&shape, x, d));
    const tt_status status = tt_shape_check(&shape);
    if (status != TT_OK)
        return tt_fail_context(status, "relabel");
    tt_infer_add(io, io->in[0].dtype, &shape);
    return TT_OK;
}

static tt_status infer_match(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "match", 2, 2));
    if (!tt_shape_same_dims(&io->in[0].shape, &io->in[1].shape))
        return tt_fail(TT_ERR_ARG, "match: the extents differ");
    tt_infer_add(io, io->in[0].dtype, &io->in[1].shape);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    if (need[0])
        din[0] = tt_match(b, dout[0], node->in[0]);
    return tt_builder_status(b);
}

// The factor of the output that is split when factor f of x is; -1: a block of x is no
// block of the output. The slowest factor of a dim can be split on both sides if the
// ranks' shares are whole entries: then each share is one run of the dim.
static int twin(const tt_shape *x, int f, const tt_shape *y, int axis_size)
{
    const int d = tt_shape_dim_of(x, f);
    const int g = y->first[d] + (f - x->first[d]);
    const int n = x->first[d + 1] - x->first[d];
    if (n == y->first[d + 1] - y->first[d] &&
        x->factor[f].size == y->factor[g].size)
        return g;
    const bool is_first = f == x->first[d];
    return is_first && x->factor[f].size % axis_size == 0 &&
                   y->factor[y->first[d]].size % axis_size == 0
               ? y->first[d]
               : -1;
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    for (int f = 0; f < io->in[0].shape.n_factors; f++) {
        const int g = twin(&io->in[0].shape, f, &io->out[0].shape, axis_size);
        if (g < 0 || !tt_can_split(&io->in[0], f, axis_size) ||
            !tt_can_split(&io->out[0], g, axis_size))
            continue;
        tt_sig *sig = tt_sigs_add(sigs);
        if (sig == NULL)
            return;
        sig->in[0] = tt_place_split(f);
        sig->in[1] = sig->out[0] = tt_place_split(g);
    }
    tt_shard_partial(io, 1, TT_SUM, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_move(io, 0, cost_out);
}

static bool view(const tt_site *site, int i, int64_t *stride_out,
                 int64_t *offset_out)
{
    (void)i;
    *offset_out = 0;
    memcpy(stride_out, site->in[0].stride, sizeof site->in[0].stride);
    return true;
}

tt_val tt_relabel(tt_builder *b, tt_val x, int dim, const char *name)
{
    const tt_relabel_params params = {.dim = dim, .name = name};
    return tt_call(b, &tt_op_relabel, &params, &x, 1, NULL);
}

tt_val tt_match(tt_builder *b, tt_val x, tt_val like)
{
    return tt_call(b, &tt_op_match, NULL, (tt_val[]){x, like}, 2, NULL);
}

static const tt_opt options[] = {
    {"dim", "0", "dim that gets the name", TT_OPT_I64,
     offsetof(tt_relabel_params, dim), NULL, 0, TT_MAX_DIMS - 1},
    {"name", "dim", "its new name", TT_OPT_STR,
     offsetof(tt_relabel_params, name)},
    {0},
};

static const tt_sample samples[] = {
    {"dim=1 name=seq", {"f a:2 h:6.w:3 c:4"}, 0},
    {"dim=0 name=rows", {"f a:5 b:2"}, 0},
    {0},
};

static const tt_sample match_samples[] = {
    {"", {"f a:3 in:12", "f a:3 c:6.h:2"}, 0},
    {"", {"f a:3 c:6.h:2", "f b:3 in:12"}, 0},
    {0},
};

const tt_op_def tt_op_relabel = {
    .name = "relabel",
    .doc = "One dim under another name, its factors merged.",
    .options = options,
    .params_bytes = sizeof(tt_relabel_params),
    .flags = TT_OP_VIEW,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .view = view,
    .samples = samples,
};

const tt_op_def tt_op_match = {
    .name = "match",
    .doc = "The same elements with the names and factors of another value.",
    .flags = TT_OP_VIEW,
    .shape_only = 2,
    .infer = infer_match,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .view = view,
    .samples = match_samples,
};
