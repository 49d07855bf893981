// slice - a range of one dim, as a view; slice_grad puts zeros around it. The sliced
// dim itself cannot be split: a range of a split dim would lie on some ranks only.
//
//   flops   none

#include "graph/site.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "ops/shard_common.h"

static tt_status check_range(const char *op, const tt_shape *x,
                             const tt_slice_params *p, int64_t size)
{
    TT_TRY(tt_infer_one_factor(op, x, p->dim));
    const int64_t extent = tt_shape_dim(x, (int)p->dim);
    if (p->start < 0 || size < 1 || size > extent || p->start > extent - size)
        return tt_fail(TT_ERR_ARG,
                       "%s: %lld entries from %lld on are not within %lld", op,
                       (long long)size, (long long)p->start, (long long)extent);
    return TT_OK;
}

static tt_status infer(tt_op_io *io)
{
    const tt_slice_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "slice", 1, 1));
    tt_shape shape = io->in[0].shape;
    TT_TRY(check_range("slice", &shape, p, p->size));
    shape.factor[shape.first[p->dim]].size = p->size;
    tt_infer_add(io, io->in[0].dtype, &shape);
    return TT_OK;
}

static tt_status infer_grad(tt_op_io *io)
{
    const tt_slice_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "slice_grad", 2, 2));
    const tt_shape *dy = &io->in[0].shape, *x = &io->in[1].shape;
    if (dy->ndim != x->ndim || p->dim < 0 || p->dim >= x->ndim)
        return tt_infer_fail_shapes("slice_grad", "not a slice", dy, x);
    TT_TRY(check_range("slice_grad", x, p, tt_shape_dim(dy, (int)p->dim)));
    for (int d = 0; d < x->ndim; d++)
        if (d != p->dim && tt_shape_dim(dy, d) != tt_shape_dim(x, d))
            return tt_infer_fail_shapes("slice_grad", "not a slice", dy, x);
    tt_infer_add(io, io->in[0].dtype, x);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_slice_params *p = node->params;
    if (need[0])
        din[0] = tt_call(b, &tt_op_slice_grad,
                         &(tt_slice_params){.dim = p->dim, .start = p->start},
                         (tt_val[]){dout[0], node->in[0]}, 2, NULL);
    return tt_builder_status(b);
}

static tt_status grad_grad(tt_builder *b, const tt_node *node,
                           const tt_val *dout, const bool *need, tt_val *din)
{
    const tt_slice_params *p = node->params;
    if (need[0])
        din[0] = tt_slice(b, dout[0], (int)p->dim, p->start,
                          tt_dim_of(b, node->in[0], (int)p->dim));
    return tt_builder_status(b);
}

// Every operand is split along its twin of factor f, except within the sliced dim.
static void shard_others(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_slice_params *p = io->params;
    const tt_shape *shape = &io->out[0].shape;
    for (int f = 0; f < shape->n_factors; f++) {
        tt_sig made = {0};
        bool is_legal = tt_shape_dim_of(shape, f) != p->dim &&
                        tt_can_split(&io->out[0], f, axis_size);
        for (int i = 0; is_legal && i < io->n_in; i++)
            is_legal = tt_shard_place(shape, f, &io->in[i], &made.in[i]);
        made.out[0] = tt_place_split(f);
        tt_sig *sig = is_legal ? tt_sigs_add(sigs) : NULL;
        if (sig != NULL)
            *sig = made;
    }
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    shard_others(io, axis_size, sigs);
    tt_shard_partial(io, 1, TT_SUM, sigs);
    tt_shard_partial(io, 1, TT_MAX, sigs);
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    shard_others(io, axis_size, sigs);
    tt_shard_partial(io, 1, TT_SUM, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    // Of the input only the slice is read.
    cost_out->bytes = 2 * tt_cost_bytes(&io->out[0]);
    cost_out->work = tt_cost_count(&io->out[0]);
    cost_out->depth = 1;
}

static bool view(const tt_site *site, int i, int64_t *stride_out,
                 int64_t *offset_out)
{
    (void)i;
    const tt_slice_params *p = site->params;
    const tt_operand *x = &site->in[0];
    for (int d = 0; d < x->local.shape.ndim; d++)
        stride_out[d] = x->stride[d];
    *offset_out = p->start * x->stride[p->dim];
    return true;
}

tt_val tt_slice(tt_builder *b, tt_val x, int dim, int64_t start, int64_t size)
{
    const tt_slice_params params = {.dim = dim, .start = start, .size = size};
    return tt_call(b, &tt_op_slice, &params, &x, 1, NULL);
}

static const tt_opt options[] = {
    {"dim", "0", "the dim", TT_OPT_I64,
     .offset = offsetof(tt_slice_params, dim)},
    {"start", "0", "the first entry", TT_OPT_I64,
     .offset = offsetof(tt_slice_params, start)},
    {"size", "1", "how many entries", TT_OPT_I64,
     .offset = offsetof(tt_slice_params, size)},
    {0},
};

static const tt_opt options_grad[] = {
    {"dim", "0", "the dim", TT_OPT_I64,
     .offset = offsetof(tt_slice_params, dim)},
    {"start", "0", "the first entry", TT_OPT_I64,
     .offset = offsetof(tt_slice_params, start)},
    {0},
};

static const tt_sample samples[] = {
    {"dim=1 start=2 size=3", {"f a:4 b:7"}, 0},
    {"dim=0 start=0 size=1", {"f a:3 b:2.c:2"}, 0},
    {"dim=2 start=3 size=2", {"f a:2 b:3 c:5"}, 0},
    {0},
};

static const tt_sample samples_grad[] = {
    {"dim=1 start=2", {"f a:4 b:3", "f a:4 b:7"}, 0},
    {"dim=0 start=0", {"f a:1 b:2.c:2", "f a:3 b:2.c:2"}, 0},
    {"dim=2 start=3", {"f a:2 b:3 c:2", "f a:2 b:3 c:5"}, 0},
    {0},
};

const tt_op_def tt_op_slice = {
    .name = "slice",
    .doc = "A range of one dim.",
    .options = options,
    .params_bytes = sizeof(tt_slice_params),
    .flags = TT_OP_VIEW,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .view = view,
    .samples = samples,
};

const tt_op_def tt_op_slice_grad = {
    .name = "slice_grad",
    .doc = "A range of one dim, with zeros around it.",
    .options = options_grad,
    .params_bytes = sizeof(tt_slice_params),
    .shape_only = 2,
    .infer = infer_grad,
    .grad = grad_grad,
    .shard = shard_grad,
    .cost = tt_cost_moved,
    .samples = samples_grad,
};
