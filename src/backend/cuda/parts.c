// parts - parts of norms and losses that ranks share, the squared error, counts. All
// operands may have any float type; see dev/loss/parts.cu for what bounds them.

#include "backend/cuda/cuda.h"
#include "ops/nn/loss.h"
#include "ops/nn/norm.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_is_plain(site);
}

static tt_cuda_parts_args operands(const tt_site *site, const tt_args *args)
{
    const tt_local *x = &site->in[0].local;
    tt_cuda_parts_args a = {
        .rows = 1, .n = tt_shape_count(&x->shape), .scratch = args->scratch};
    for (int i = 0; i < site->n_in; i++)
        if (tt_site_has(site, i))
            a.in[i] = (tt_cuda_any){site->in[i].dtype,
                                    (void *)(uintptr_t)args->in[i]};
    for (int i = 0; i < site->n_out; i++)
        a.out[i] = (tt_cuda_any){site->out[i].dtype, args->out[i]};
    return a;
}

// Input 0 as rows along its last dimension.
static tt_cuda_parts_args rows_of(const tt_site *site, const tt_args *args)
{
    const tt_local *x = &site->in[0].local;
    tt_cuda_parts_args a = operands(site, args);
    a.rows = tt__site_rows(site);
    a.n = tt__site_cols(site);
    a.whole = tt_position_extent(x, x->shape.ndim - 1);
    return a;
}

// ---- norms ----

static tt_status run_moment(void *state, const tt_site *site,
                            const tt_args *args)
{
    tt_cuda_parts_args a = rows_of(site, args);
    a.power = (int)((const tt_row_moment_params *)site->params)->power;
    return TT__CUDA(state, row_moment, &a);
}

static tt_status run_rsqrt(void *state, const tt_site *site,
                           const tt_args *args)
{
    tt_cuda_parts_args a = operands(site, args);
    a.eps = ((const tt_norm_params *)site->params)->eps;
    return TT__CUDA(state, rsqrt, &a);
}

static tt_status run_apply(void *state, const tt_site *site,
                           const tt_args *args)
{
    const tt_cuda_parts_args a = rows_of(site, args);
    return TT__CUDA(state, norm_apply, &a);
}

static tt_status run_grad_moments(void *state, const tt_site *site,
                                  const tt_args *args)
{
    const tt_cuda_parts_args a = rows_of(site, args);
    return TT__CUDA(state, norm_grad_moments, &a);
}

static tt_status run_grad_apply(void *state, const tt_site *site,
                                const tt_args *args)
{
    const tt_cuda_parts_args a = rows_of(site, args);
    return TT__CUDA(state, norm_grad_apply, &a);
}

// ---- losses ----

static tt_status run_max(void *state, const tt_site *site, const tt_args *args)
{
    const tt_cuda_parts_args a = rows_of(site, args);
    return TT__CUDA(state, row_max, &a);
}

// The columns here are neighbours in the whole.
static bool can_terms(const tt_backend *backend, const tt_site *site)
{
    int64_t first;
    const tt_local *x = &site->in[0].local;
    return can(backend, site) && site->in[1].dtype == TT_I32 &&
           tt__is_run(x, x->shape.ndim - 1, &first);
}

static tt_status run_terms(void *state, const tt_site *site,
                           const tt_args *args)
{
    const tt_cross_entropy_params *p = site->params;
    const tt_local *x = &site->in[0].local;
    tt_cuda_parts_args a = rows_of(site, args);
    a.smoothing = p->smoothing;
    a.ignore = p->ignore;
    (void)tt__is_run(x, x->shape.ndim - 1, &a.first);
    return TT__CUDA(state, loss_terms, &a);
}

static bool can_join(const tt_backend *backend, const tt_site *site)
{
    return can(backend, site) && site->in[3].dtype == TT_I32;
}

static tt_status run_join(void *state, const tt_site *site, const tt_args *args)
{
    tt_cuda_parts_args a = operands(site, args);
    a.ignore = ((const tt_loss_join_params *)site->params)->ignore;
    return TT__CUDA(state, loss_join, &a);
}

static tt_status run_marks(void *state, const tt_site *site,
                           const tt_args *args)
{
    const tt_local *x = &site->in[0].local;
    tt_cuda_parts_args a = rows_of(site, args);
    (void)tt__is_run(x, x->shape.ndim - 1, &a.first);
    return TT__CUDA(state, correct_terms, &a);
}

static tt_status run_hits(void *state, const tt_site *site, const tt_args *args)
{
    const tt_cuda_parts_args a = operands(site, args);
    return TT__CUDA(state, correct_join, &a);
}

// A sample is a row: it has one weight.
static tt_cuda_parts_args samples_of(const tt_site *site, const tt_args *args)
{
    tt_cuda_parts_args a = operands(site, args);
    a.rows = tt_operand_dim(&site->in[0], 0);
    a.n /= a.rows;
    return a;
}

static tt_status prepare_mse(tt_backend *backend, tt_site *site,
                             tt_prepared *prepared_out)
{
    prepared_out->scratch_bytes = (int64_t)16 * TT_CUDA_MSE_BLOCKS;
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_status run_mse(void *state, const tt_site *site, const tt_args *args)
{
    const tt_cuda_parts_args a = samples_of(site, args);
    return site->op == &tt_op_mse ? TT__CUDA(state, mse, &a)
                                  : TT__CUDA(state, mse_grad, &a);
}

// ---- counts ----

static tt_status run_count(void *state, const tt_site *site,
                           const tt_args *args)
{
    const tt_cuda_parts_args a = operands(site, args);
    return TT__CUDA(state, count, &a);
}

const tt_kernel_def tt__cuda_parts_kernels[] = {
    {TT__CUDA_KERNEL(count), .run = run_count},
    {TT_KERNEL(cuda, mse), .can = can, .prepare = prepare_mse, .run = run_mse},
    {TT__CUDA_KERNEL(mse_grad), .can = can, .run = run_mse},
    {TT__CUDA_KERNEL(row_moment), .can = can, .run = run_moment},
    {TT__CUDA_KERNEL(rsqrt), .can = can, .run = run_rsqrt},
    {TT__CUDA_KERNEL(norm_apply), .can = can, .run = run_apply},
    {TT__CUDA_KERNEL(norm_grad_moments), .can = can, .run = run_grad_moments},
    {TT__CUDA_KERNEL(norm_grad_apply), .can = can, .run = run_grad_apply},
    {TT__CUDA_KERNEL(row_max), .can = can, .run = run_max},
    {TT__CUDA_KERNEL(loss_terms), .can = can_terms, .run = run_terms},
    {TT__CUDA_KERNEL(loss_join), .can = can_join, .run = run_join},
    {TT__CUDA_KERNEL(correct_terms), .can = can_terms, .run = run_marks},
    {TT__CUDA_KERNEL(correct_join), .can = can, .run = run_hits},
    {0},
};
