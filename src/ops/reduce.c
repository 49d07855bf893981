// reduce - sum, mean or maximum over dims; reduce_max_grad gives the gradient of
// the maximum to the entries that equal it, in equal shares.
//
// The mean divides by the extents of the whole value, not of the rank's part. So the
// results of the parts are terms that add up to the mean.
//
//   flops   one per element of x that does not start a result; mean: one more
//           per result. reduce_max_grad: two per element

#include "ops/arith.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

bool tt_reduce_has(const tt_reduce_params *params, int d)
{
    for (int i = 0; i < params->dims.n; i++)
        if (params->dims.v[i] == d)
            return true;
    return params->dims.n == 0;
}

static tt_status reduced_shape(const char *op, const tt_reduce_params *p,
                               const tt_shape *x, tt_shape *shape_out)
{
    if (p->dims.n > TT_MAX_DIMS)
        return tt_fail(TT_ERR_ARG, "%s: %lld dims; at most %d", op,
                       (long long)p->dims.n, TT_MAX_DIMS);
    for (int i = 0; i < p->dims.n; i++)
        if (p->dims.v[i] < 0 || p->dims.v[i] >= x->ndim)
            return tt_fail(TT_ERR_ARG, "%s: there is no dim %lld", op,
                           (long long)p->dims.v[i]);
    *shape_out = (tt_shape){0};
    for (int d = 0; d < x->ndim; d++) {
        if (!tt_reduce_has(p, d))
            TT_TRY(tt_shape_push_dim(shape_out, x, d));
        else if (p->keep)
            TT_TRY(tt_shape_push(shape_out, x->factor[x->first[d]].name, 1));
    }
    return TT_OK;
}

static tt_status infer(tt_op_io *io)
{
    tt_shape shape;
    TT_TRY(tt_infer_inputs(io, "reduce", 1, 1));
    TT_TRY(tt_infer_float(io, "reduce", 0));
    TT_TRY(reduced_shape("reduce", io->params, &io->in[0].shape, &shape));
    tt_infer_add(io, io->in[0].dtype, &shape);
    return TT_OK;
}

static tt_status infer_max_grad(tt_op_io *io)
{
    tt_shape shape;
    TT_TRY(tt_infer_inputs(io, "reduce_max_grad", 3, 3));
    TT_TRY(
        reduced_shape("reduce_max_grad", io->params, &io->in[0].shape, &shape));
    for (int i = 0; i < 3; i++)
        TT_TRY(tt_infer_float(io, "reduce_max_grad", i));
    TT_TRY(tt_infer_same_dims(io, "reduce_max_grad", 1, 2));
    if (!tt_shape_same_dims(&shape, &io->in[1].shape))
        return tt_infer_fail_shapes("reduce_max_grad",
                                    "y is not the maximum of x",
                                    &io->in[1].shape, &io->in[0].shape);
    tt_infer_add(io, io->in[0].dtype, &io->in[0].shape);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_reduce_params *p = node->params;
    if (!need[0])
        return TT_OK;
    if (p->op == TT_REDUCE_MAX) {
        const tt_val in[] = {node->in[0], node->out[0], dout[0]};
        din[0] = tt_call(b, &tt_op_reduce_max_grad, p, in, 3, NULL);
        return tt_builder_status(b);
    }
    tt_val dy = dout[0];
    const tt_shape *x = &tt_type_of(b, node->in[0])->shape;
    const tt_shape *y = &tt_type_of(b, dy)->shape;
    if (p->op == TT_REDUCE_MEAN)
        dy = tt_scale(b, dy,
                      (double)tt_shape_count(y) / (double)tt_shape_count(x));
    tt_broadcast_params lacking = {0};
    for (int d = 0; d < x->ndim && !p->keep; d++)
        if (tt_reduce_has(p, d))
            lacking.dims.v[lacking.dims.n++] = d;
    din[0] = tt_call(b, &tt_op_broadcast, &lacking, (tt_val[]){dy, node->in[0]},
                     2, NULL);
    return tt_builder_status(b);
}

// The factor of the result that factor f of x becomes; -1: it is reduced.
static int kept_factor(const tt_reduce_params *p, const tt_shape *x, int f)
{
    const int dim = tt_shape_dim_of(x, f);
    if (tt_reduce_has(p, dim))
        return -1;
    int at = f;
    for (int d = 0; d < dim; d++)
        if (tt_reduce_has(p, d))
            at -= x->first[d + 1] - x->first[d] - (p->keep ? 1 : 0);
    return at;
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_reduce_params *p = io->params;
    const tt_reduce how = p->op == TT_REDUCE_MAX ? TT_MAX : TT_SUM;
    for (int f = 0; f < io->in[0].shape.n_factors; f++) {
        if (!tt_can_split(&io->in[0], f, axis_size))
            continue;
        tt_sig *sig = tt_sigs_add(sigs);
        if (sig == NULL)
            return;
        const int kept = kept_factor(p, &io->in[0].shape, f);
        sig->in[0] = tt_place_split(f);
        sig->out[0] = kept < 0 ? tt_place_partial(how) : tt_place_split(kept);
    }
    tt_shard_partial(io, 1, how, sigs);
}

static void shard_max_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_reduce_params *p = io->params;
    const tt_shape *x = &io->in[0].shape, *y = &io->in[1].shape;
    for (int f = 0; f < x->n_factors; f++) {
        const int kept = kept_factor(p, x, f);
        if (kept < 0 || !tt_can_split(&io->in[0], f, axis_size))
            continue; // the number of entries that share the maximum is global
        const int dim = tt_shape_dim_of(y, kept);
        if (tt_shard_twin_at(y, kept, &io->in[2].shape, dim) != kept)
            continue;
        tt_sig *sig = tt_sigs_add(sigs);
        if (sig == NULL)
            return;
        sig->in[0] = sig->out[0] = tt_place_split(f);
        sig->in[1] = sig->in[2] = tt_place_split(kept);
    }
    tt_shard_partial(io, 4, TT_SUM, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_reduce_params *p = io->params;
    const double n = tt_cost_count(&io->in[0]);
    const double n_results = tt_cost_count(&io->out[0]);
    const double divisions = p->op == TT_REDUCE_MEAN ? n_results : 0;
    tt_cost_reduction(io, 0, n - n_results + divisions, n / n_results,
                      cost_out);
    cost_out->work = n + divisions;
}

static void cost_max_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[0]);
    tt_cost_reduction(io, 0, 2 * n, n / tt_cost_count(&io->in[1]), cost_out);
}

tt_val tt_reduce_dims(tt_builder *b, tt_val x, tt_reduce_op op,
                      const int64_t *dims, int n)
{
    tt_reduce_params params = {.op = (int)op, .dims.n = n};
    for (int i = 0; i < n && i < TT_I64S_MAX; i++)
        params.dims.v[i] = dims[i];
    return tt_call(b, &tt_op_reduce, &params, &x, 1, NULL);
}

static const tt_opt options[] = {
    {"op", "sum", "what the dims are reduced to", TT_OPT_CHOICE,
     .offset = offsetof(tt_reduce_params, op), .choices = "sum|mean|max"},
    {"dims", NULL, "the dims; none: all", TT_OPT_I64S,
     .offset = offsetof(tt_reduce_params, dims)},
    {"keep", "false", "whether they stay, with extent 1", TT_OPT_BOOL,
     .offset = offsetof(tt_reduce_params, keep)},
    {0},
};

static const tt_sample samples[] = {
    {"", {"f a:3 b:5"}, 14},
    {"op=mean dims=1", {"f a:3 b:5 c:2"}, 30},
    {"op=mean dims=0,2 keep=true", {"f a:3 b:5 c:2.d:2"}, 60},
    {"op=max dims=1", {"f! a:3 b:5 c:2"}, 24},
    {"op=max dims=0 keep=true", {"f! a:4 b:3"}, 9},
    {0},
};

static const tt_sample samples_max_grad[] = {
    {"op=max dims=1", {"f! a:3 b:5", "f a:3", "f a:3"}, 30},
    {"op=max dims=1", {"=1 a:3 b:5", "=1 a:3", "f a:3"}, 30},
    {"op=max dims=0 keep=true", {"=2 a:4 b:3", "=2 a:1 b:3", "f a:1 b:3"}, 24},
    {0},
};

const tt_op_def tt_op_reduce = {
    .name = "reduce",
    .doc = "Sum, mean or maximum over dims.",
    .options = options,
    .params_bytes = sizeof(tt_reduce_params),
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_reduce_max_grad = {
    .name = "reduce_max_grad",
    .doc = "The gradient of the maximum over dims.",
    .options = options,
    .params_bytes = sizeof(tt_reduce_params),
    .infer = infer_max_grad,
    .shard = shard_max_grad,
    .cost = cost_max_grad,
    .samples = samples_max_grad,
};
