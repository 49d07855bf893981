// loss - softmax, cross-entropy, accuracy. Bound by reading the logits: a block reads
// its row once, for the sum and the largest entry together. Rows may be padded, with a
// gap after each, as the product that made them likes it (matmul.c).

#include "ops/nn/loss.h"

#include "backend/cuda/cuda.h"
#include "ops/fused/fused.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

static bool can_softmax(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "s", "s");
}

static tt_status run_softmax(void *state, const tt_site *site,
                             const tt_args *args)
{
    const tt_cuda_softmax_args a = {.type = site->in[0].dtype,
                                    .rows = tt__site_rows(site),
                                    .n = tt__site_cols(site),
                                    .x = args->in[0],
                                    .dy = site->n_in > 1 ? args->in[1] : NULL,
                                    .y = args->out[0]};
    return site->n_in > 1 ? TT__CUDA(state, softmax_grad, &a)
                          : TT__CUDA(state, softmax, &a);
}

// ---- cross-entropy -------------------------------------------------------

// Rows at equal distance, columns side by side.
static bool row_stride(const tt_operand *o, int64_t *stride_out)
{
    const int last = o->local.shape.ndim - 1;
    int64_t extent = 1, stride = tt_operand_dim(o, last);
    if (o->stride[last] != 1 && tt_operand_dim(o, last) > 1)
        return false;
    for (int d = last - 1; d >= 0; d--) {
        const int64_t n = tt_operand_dim(o, d);
        if (n == 1)
            continue;
        if (extent == 1)
            stride = o->stride[d];
        else if (o->stride[d] != extent * stride)
            return false;
        extent *= n;
    }
    *stride_out = stride;
    return true;
}

static bool is_slice(const tt_site *site, int64_t *first_out)
{
    const tt_local *x = &site->in[0].local;
    return tt__is_run(x, x->shape.ndim - 1, first_out);
}

static bool can_cross_entropy(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    const tt_local *x = &site->in[0].local;
    return tt__site_has_types(site, "si", "f") &&
           tt_position_extent(x, x->shape.ndim - 1) == tt__site_cols(site);
}

static bool can_cross_entropy_grad(const tt_backend *backend,
                                   const tt_site *site)
{
    (void)backend;
    int64_t first;
    return tt__site_has_types(site, "siff", "s") && is_slice(site, &first);
}

static bool can_step(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    const tt_local *x = &site->in[0].local;
    return tt__site_has_types(site, "sif", "sf") &&
           tt_position_extent(x, x->shape.ndim - 1) == tt__site_cols(site);
}

static bool can_correct(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "si", "f");
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    int64_t stride;
    if (!row_stride(&site->in[0], &stride))
        tt_operand_set_dense(&site->in[0]);
    if (site->op == &tt_op_cross_entropy_grad ||
        site->op == &tt_op_cross_entropy_step) // in place where it can be
        for (int d = 0; d < site->in[0].local.shape.ndim; d++)
            site->out[0].stride[d] = site->in[0].stride[d];
    prepared_out->scratch_bytes = 8 * tt__site_rows(site);
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_cuda_loss_args describe(const tt_site *site, const tt_args *args)
{
    const tt_local *x = &site->in[0].local;
    tt_cuda_loss_args a = {.type = site->in[0].dtype,
                           .rows = tt__site_rows(site),
                           .n = tt__site_cols(site),
                           .vocab = tt_position_extent(x, x->shape.ndim - 1),
                           .logits = args->in[0],
                           .labels = args->in[1],
                           .scratch = args->scratch};
    (void)row_stride(&site->in[0], &a.row_stride);
    (void)is_slice(site, &a.first);
    if (site->op != &tt_op_correct) {
        const tt_cross_entropy_params *p = site->params;
        a.ignore = p->ignore;
        a.smoothing = p->smoothing;
    }
    return a;
}

static tt_status run_cross_entropy(void *state, const tt_site *site,
                                   const tt_args *args)
{
    tt_cuda_loss_args a = describe(site, args);
    a.sum = args->out[0];
    a.count = args->out[1];
    a.lse = args->out[2];
    return TT__CUDA(state, cross_entropy, &a);
}

static tt_status run_cross_entropy_grad(void *state, const tt_site *site,
                                        const tt_args *args)
{
    tt_cuda_loss_args a = describe(site, args);
    a.lse_in = args->in[2];
    a.dsum = args->in[3];
    a.dlogits = args->out[0];
    return TT__CUDA(state, cross_entropy_grad, &a);
}

static tt_status run_correct(void *state, const tt_site *site,
                             const tt_args *args)
{
    tt_cuda_loss_args a = describe(site, args);
    a.sum = args->out[0];
    return TT__CUDA(state, correct, &a);
}

static tt_status run_step(void *state, const tt_site *site, const tt_args *args)
{
    tt_cuda_loss_args a = describe(site, args);
    a.dsum = tt_site_has(site, TT_CS_FACTOR) ? args->in[TT_CS_FACTOR] : NULL;
    a.dlogits = args->out[TT_CS_DLOGITS];
    a.sum = args->out[TT_CS_SUM];
    a.count = args->out[TT_CS_COUNT];
    a.correct = args->out[TT_CS_CORRECT];
    return TT__CUDA(state, cross_entropy_step, &a);
}

const tt_kernel_def tt__cuda_loss_kernels[] = {
    {TT__CUDA_KERNEL(softmax), .in_place = true, .can = can_softmax,
     .run = run_softmax},
    {TT__CUDA_KERNEL(softmax_grad), .in_place = true, .can = can_softmax,
     .run = run_softmax},
    {TT_KERNEL(cuda, cross_entropy), .strided_in = 1, .can = can_cross_entropy,
     .prepare = prepare, .run = run_cross_entropy},
    {TT_KERNEL(cuda, cross_entropy_grad), .strided_in = 1, .strided_out = 1,
     .in_place = true, .can = can_cross_entropy_grad, .prepare = prepare,
     .run = run_cross_entropy_grad},
    {TT_KERNEL(cuda, correct), .strided_in = 1, .can = can_correct,
     .prepare = prepare, .run = run_correct},
    {TT_KERNEL(cuda, cross_entropy_step), .strided_in = 1, .strided_out = 1,
     .in_place = true, .can = can_step, .prepare = prepare, .run = run_step},
    {0},
};
