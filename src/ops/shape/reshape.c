// reshape - the factors of x in other dims. Their order stays, so no element
// moves: a dim is separated into its factors, or neighbours are merged.
//
//   "batch:2 seq:3 heads:4.head:5"   dims=1,1,1,1   "batch:2 seq:3 heads:4 head:5"
//
//   flops   none

#include "graph/site.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "ops/shape/view.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    const tt_reshape_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "reshape", 1, 1));
    if (p->dims.n > TT_MAX_DIMS)
        return tt_fail(TT_ERR_ARG, "reshape: %lld dims; at most %d",
                       (long long)p->dims.n, TT_MAX_DIMS);
    tt_shape shape = io->in[0].shape;
    int64_t n_factors = 0;
    shape.ndim = (int32_t)p->dims.n;
    for (int d = 0; d < shape.ndim; d++) {
        const int64_t n = p->dims.v[d];
        if (n < 1 || n > shape.n_factors - n_factors)
            return tt_fail(TT_ERR_ARG,
                           "reshape: dim %d cannot take %lld of the %lld "
                           "factors that are left",
                           d, (long long)n,
                           (long long)(shape.n_factors - n_factors));
        n_factors += n;
        shape.first[d + 1] = (uint8_t)n_factors;
    }
    if (n_factors != shape.n_factors)
        return tt_fail(TT_ERR_ARG, "reshape: dims take %lld of %d factors",
                       (long long)n_factors, (int)shape.n_factors);
    tt_infer_add(io, io->in[0].dtype, &shape);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    if (!need[0])
        return TT_OK;
    const tt_shape *shape = &tt_type_of(b, node->in[0])->shape;
    int64_t n_factors[TT_MAX_DIMS];
    for (int d = 0; d < shape->ndim; d++)
        n_factors[d] = shape->first[d + 1] - shape->first[d];
    din[0] = tt_reshape(b, dout[0], n_factors, shape->ndim);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    for (int f = 0; f < io->in[0].shape.n_factors; f++) {
        if (!tt_can_split(&io->in[0], f, axis_size))
            continue;
        tt_sig *sig = tt_sigs_add(sigs);
        if (sig == NULL)
            return;
        sig->in[0] = sig->out[0] = tt_place_split(f);
    }
    tt_shard_partial(io, 1, TT_SUM, sigs);
    tt_shard_partial(io, 1, TT_MAX, sigs);
}

static bool view(const tt_site *site, int i, int64_t *stride_out,
                 int64_t *offset_out)
{
    int64_t stride[TT_MAX_FACTORS] = {0};
    tt_view_split_dims(&site->in[0], stride);
    *offset_out = 0;
    return tt_view_merge_dims(&site->out[i].local.shape, stride, stride_out);
}

tt_val tt_reshape(tt_builder *b, tt_val x, const int64_t *n_factors, int n_dims)
{
    tt_reshape_params params = {.dims.n = n_dims};
    for (int d = 0; d < n_dims && d < TT_I64S_MAX; d++)
        params.dims.v[d] = n_factors[d];
    return tt_call(b, &tt_op_reshape, &params, &x, 1, NULL);
}

static const tt_opt options[] = {
    {"dims", NULL, "number of factors of each new dim", TT_OPT_I64S,
     .offset = offsetof(tt_reshape_params, dims)},
    {0},
};

static const tt_sample samples[] = {
    {"dims=1,1,1", {"f a:3 b:5.c:2"}, 0},
    {"dims=3", {"f a:3 b:5 c:2"}, 0},
    {"dims=2,1", {"f a:3 b:5.c:2"}, 0},
    {0},
};

const tt_op_def tt_op_reshape = {
    .name = "reshape",
    .doc = "The factors of a value grouped into other dims.",
    .options = options,
    .params_bytes = sizeof(tt_reshape_params),
    .flags = TT_OP_VIEW,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = tt_cost_moved,
    .view = view,
    .samples = samples,
};
