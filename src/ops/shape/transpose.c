// transpose - the dims of x in another order. It is a view: strides are permuted and
// nothing moves, unless a later kernel cannot take such strides.
//
//   flops   none

#include "graph/site.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "ops/shard_common.h"

static tt_status check_perm(const tt_i64s *perm, int ndim)
{
    if (perm->n != ndim)
        return tt_fail(TT_ERR_ARG, "transpose: perm names %lld of %d dims",
                       (long long)perm->n, ndim);
    uint32_t seen = 0;
    for (int d = 0; d < ndim; d++) {
        const int64_t from = perm->v[d];
        if (from < 0 || from >= ndim)
            return tt_fail(TT_ERR_ARG, "transpose: there is no dim %lld",
                           (long long)from);
        seen |= 1u << from;
    }
    if (seen != (1u << ndim) - 1)
        return tt_fail(TT_ERR_ARG, "transpose: perm names a dim twice");
    return TT_OK;
}

static tt_status infer(tt_op_io *io)
{
    const tt_transpose_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "transpose", 1, 1));
    TT_TRY(check_perm(&p->perm, io->in[0].shape.ndim));
    tt_shape shape = {0};
    for (int d = 0; d < p->perm.n; d++)
        TT_TRY(tt_shape_push_dim(&shape, &io->in[0].shape, (int)p->perm.v[d]));
    tt_infer_add(io, io->in[0].dtype, &shape);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_transpose_params *p = node->params;
    if (!need[0])
        return TT_OK;
    int64_t inverse[TT_MAX_DIMS];
    for (int d = 0; d < p->perm.n; d++)
        inverse[p->perm.v[d]] = d;
    din[0] = tt_transpose(b, dout[0], inverse, (int)p->perm.n);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_transpose_params *p = io->params;
    const tt_shape *x = &io->in[0].shape, *y = &io->out[0].shape;
    for (int f = 0; f < y->n_factors; f++) {
        if (!tt_can_split(&io->out[0], f, axis_size))
            continue;
        tt_sig *sig = tt_sigs_add(sigs);
        if (sig == NULL)
            return;
        const int d = tt_shape_dim_of(y, f);
        sig->in[0] = tt_place_split(x->first[p->perm.v[d]] + f - y->first[d]);
        sig->out[0] = tt_place_split(f);
    }
    tt_shard_partial(io, 1, TT_SUM, sigs);
    tt_shard_partial(io, 1, TT_MAX, sigs);
}

static bool view(const tt_site *site, int i, int64_t *stride_out,
                 int64_t *offset_out)
{
    (void)i;
    const tt_transpose_params *p = site->params;
    for (int d = 0; d < p->perm.n; d++)
        stride_out[d] = site->in[0].stride[p->perm.v[d]];
    *offset_out = 0;
    return true;
}

tt_val tt_transpose(tt_builder *b, tt_val x, const int64_t *perm, int n_dims)
{
    tt_transpose_params params = {.perm.n = n_dims};
    for (int d = 0; d < n_dims && d < TT_I64S_MAX; d++)
        params.perm.v[d] = perm[d];
    return tt_call(b, &tt_op_transpose, &params, &x, 1, NULL);
}

static const tt_opt options[] = {
    {"perm", NULL, "which dim of the input each dim of the output is",
     TT_OPT_I64S, .offset = offsetof(tt_transpose_params, perm)},
    {0},
};

static const tt_sample samples[] = {
    {"perm=1,0", {"f a:3 b:5"}, 0},
    {"perm=2,0,1", {"f a:3 b:5.d:2 c:4"}, 0},
    {"perm=0,2,1,3", {"f a:2 b:3 c:5 d:2"}, 0},
    {0},
};

const tt_op_def tt_op_transpose = {
    .name = "transpose",
    .doc = "The dims of a value in another order.",
    .options = options,
    .params_bytes = sizeof(tt_transpose_params),
    .flags = TT_OP_VIEW,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = tt_cost_moved,
    .view = view,
    .samples = samples,
};
