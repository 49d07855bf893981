// norm - layer norm and RMS norm of whole rows, and their gradients. Bound by memory
// bandwidth (dev/norm). Rows that ranks share are in parts.c.

#include "ops/nn/norm.h"

#include "backend/cuda/cuda.h"
#include "ops/fused/fused.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

static bool is_whole_row(const tt_site *site)
{
    const tt_local *x = &site->in[0].local;
    return tt_position_extent(x, x->shape.ndim - 1) == tt__site_cols(site);
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "sy", "sf") && is_whole_row(site) &&
           (!tt_site_has(site, 2) || site->in[2].dtype == site->in[1].dtype);
}

static bool can_grad_x(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ssyf", "s") && is_whole_row(site);
}

static bool can_grad_w(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ssf", "f") && is_whole_row(site);
}

static tt_cuda_norm_args describe(const tt_site *site, const tt_args *args)
{
    return (tt_cuda_norm_args){.type = site->in[0].dtype,
                               .weight_type = TT_F32,
                               .rows = tt__site_rows(site),
                               .n = tt__site_cols(site),
                               .x = args->in[0]};
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    const tt_norm_params *p = site->params;
    const bool has_mean = site->op == &tt_op_layer_norm;
    tt_cuda_norm_args a = describe(site, args);
    a.eps = p->eps;
    a.gamma = tt_site_has(site, 1) ? args->in[1] : NULL;
    a.weight_type = tt_site_has(site, 1) ? site->in[1].dtype : TT_F32;
    a.beta = tt_site_has(site, 2) ? args->in[2] : NULL;
    a.y = args->out[0];
    a.mean = has_mean ? args->out[1] : NULL;
    a.rstd = args->out[has_mean ? 2 : 1];
    return TT__CUDA(state, norm, &a);
}

static tt_status run_grad_x(void *state, const tt_site *site,
                            const tt_args *args)
{
    const bool has_mean = site->op == &tt_op_layer_norm_grad_x;
    tt_cuda_norm_args a = describe(site, args);
    a.dy = args->in[1];
    a.gamma = tt_site_has(site, 2) ? args->in[2] : NULL;
    a.weight_type = tt_site_has(site, 2) ? site->in[2].dtype : TT_F32;
    a.mean_in = has_mean ? args->in[3] : NULL;
    a.rstd_in = args->in[has_mean ? 4 : 3];
    a.y = args->out[0];
    return TT__CUDA(state, norm_grad_x, &a);
}

static tt_status prepare_grad_w(tt_backend *backend, tt_site *site,
                                tt_prepared *prepared_out)
{
    const tt_args none = {.in = (const void *const[]){NULL}};
    const tt_cuda_norm_args a = describe(site, &none);
    prepared_out->scratch_bytes = tt__cuda_of(backend)->api->norm_scratch(&a);
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_status run_grad_w(void *state, const tt_site *site,
                            const tt_args *args)
{
    const bool has_mean = site->op == &tt_op_layer_norm_grad_w;
    tt_cuda_norm_args a = describe(site, args);
    a.dy = args->in[1];
    a.mean_in = has_mean ? args->in[2] : NULL;
    a.rstd_in = args->in[has_mean ? 3 : 2];
    a.dgamma = args->out[0];
    a.dbeta = site->n_out > 1 ? args->out[1] : NULL;
    a.scratch = args->scratch;
    return TT__CUDA(state, norm_grad_w, &a);
}

static bool can_grad(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ssyffs", "sf") && is_whole_row(site);
}

static tt_status run_grad(void *state, const tt_site *site, const tt_args *args)
{
    const tt_norm_grad_params *p = site->params;
    tt_cuda_norm_args a = describe(site, args);
    a.dy = args->in[TT_NG_DY];
    a.gamma = args->in[TT_NG_GAMMA];
    a.weight_type = site->in[TT_NG_GAMMA].dtype;
    a.mean_in = tt_site_has(site, TT_NG_MEAN) ? args->in[TT_NG_MEAN] : NULL;
    a.rstd_in = args->in[TT_NG_RSTD];
    a.plus = tt_site_has(site, TT_NG_PLUS) ? args->in[TT_NG_PLUS] : NULL;
    a.y = args->out[TT_NG_DX];
    a.dgamma = args->out[TT_NG_DGAMMA];
    a.dbeta = p->bias ? args->out[TT_NG_DBETA] : NULL;
    a.dsum = p->sums ? args->out[site->n_out - 1] : NULL;
    a.scratch = args->scratch;
    return TT__CUDA(state, norm_grad, &a);
}

const tt_kernel_def tt__cuda_norm_kernels[] = {
    {TT__CUDA_KERNEL(layer_norm), .can = can, .run = run},
    {TT__CUDA_KERNEL(layer_norm_grad_x), .can = can_grad_x, .run = run_grad_x},
    {TT_KERNEL(cuda, layer_norm_grad_w), .can = can_grad_w,
     .prepare = prepare_grad_w, .run = run_grad_w},
    {TT__CUDA_KERNEL(rms_norm), .can = can, .run = run},
    {TT__CUDA_KERNEL(rms_norm_grad_x), .can = can_grad_x, .run = run_grad_x},
    {TT_KERNEL(cuda, rms_norm_grad_w), .can = can_grad_w,
     .prepare = prepare_grad_w, .run = run_grad_w},
    {TT_KERNEL(cuda, norm_grad), .in_place = true, .can = can_grad,
     .prepare = prepare_grad_w, .run = run_grad},
    {0},
};
