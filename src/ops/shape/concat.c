// concat - values one after the other along a dim. Where lowering can, the producers
// write straight into their place in the result, and nothing is copied.
//
//   flops   none

#include "graph/site.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    const tt_concat_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "concat", 1, INT32_MAX));
    tt_shape shape = io->in[0].shape;
    TT_TRY(tt_infer_one_factor("concat", &shape, p->dim));
    int64_t extent = 0;
    for (int i = 0; i < io->n_in; i++) {
        TT_TRY(tt_infer_joins(io, "concat", i, p->dim));
        const int64_t part = tt_shape_dim(&io->in[i].shape, (int)p->dim);
        if (extent > INT64_MAX - part)
            return tt_fail(TT_ERR_ARG, "concat: dim %lld would be too large",
                           (long long)p->dim);
        extent += part;
    }
    shape.factor[shape.first[p->dim]].size = extent;
    tt_infer_add(io, io->in[0].dtype, &shape);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_concat_params *p = node->params;
    int64_t start = 0;
    for (int i = 0; i < node->n_in; i++) {
        const int64_t size = tt_dim_of(b, node->in[i], (int)p->dim);
        if (need[i])
            din[i] = tt_slice(b, dout[0], (int)p->dim, start, size);
        start += size;
    }
    return tt_builder_status(b);
}

static bool place_all(const tt_op_io *io, int f, tt_sig *sig)
{
    const tt_shape *shape = &io->out[0].shape;
    for (int i = 0; i < io->n_in; i++) {
        tt_place place = {0};
        if (!tt_shard_place(shape, f, &io->in[i], &place) ||
            (i >= TT_SIG_IN && place.factor != sig->in[TT_SIG_IN - 1].factor))
            return false;
        if (i < TT_SIG_IN)
            sig->in[i] = place;
    }
    sig->out[0] = tt_place_split(f);
    return true;
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_concat_params *p = io->params;
    const tt_shape *shape = &io->out[0].shape;
    for (int f = 0; f < shape->n_factors; f++) {
        tt_sig made = {0};
        if (tt_shape_dim_of(shape, f) == p->dim ||
            !tt_can_split(&io->out[0], f, axis_size) ||
            !place_all(io, f, &made))
            continue;
        tt_sig *sig = tt_sigs_add(sigs);
        if (sig != NULL)
            *sig = made;
    }
    tt_shard_partial(io, ~0u, TT_SUM, sigs);
    tt_shard_partial(io, ~0u, TT_MAX, sigs);
}

static bool view(const tt_site *site, int i, int64_t *stride_out,
                 int64_t *offset_out)
{
    const tt_concat_params *p = site->params;
    const tt_operand *y = &site->out[0];
    int64_t start = 0;
    for (int k = 0; k < i; k++)
        start += tt_operand_dim(&site->in[k], (int)p->dim);
    for (int d = 0; d < y->local.shape.ndim; d++)
        stride_out[d] = y->stride[d];
    *offset_out = start * y->stride[p->dim];
    return true;
}

static const tt_opt options[] = {
    {"dim", "0", "the dim", TT_OPT_I64,
     .offset = offsetof(tt_concat_params, dim)},
    {0},
};

static const tt_sample samples[] = {
    {"dim=1", {"f a:4 b:1", "f a:4 b:3", "f a:4 c:2"}, 0},
    {"dim=0", {"f a:3 b:2.c:4", "f a:2 b:2.c:4"}, 0},
    {"dim=0", {"f a:3"}, 0},
    {0},
};

const tt_op_def tt_op_concat = {
    .name = "concat",
    .doc = "Values one after the other along a dim.",
    .options = options,
    .params_bytes = sizeof(tt_concat_params),
    .flags = TT_OP_CONCAT,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = tt_cost_moved,
    .view = view,
    .samples = samples,
};
