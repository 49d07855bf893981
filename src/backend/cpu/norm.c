// norm - layer norm and RMS norm over whole rows. Rows that are split over ranks come
// as smaller operators (ops/nn/norm_parts.c).

#include "ops/nn/norm.h"

#include "backend/cpu/wrap.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

static bool is_whole_row(const tt_site *site)
{
    const tt_local *x = &site->in[0].local;
    return tt_position_extent(x, x->shape.ndim - 1) == tt__site_cols(site);
}

static tt_simd_norm_args describe(const tt_site *site, const tt_args *args)
{
    return (tt_simd_norm_args){
        .type = tt__simd_type_of(site->in[0].dtype),
        .rows = tt__site_rows(site),
        .cols = tt__site_cols(site),
        .x = args->in[0],
    };
}

// Input i, a vector along the columns, as floats; `slot` numbers such vectors.
static const float *columns(const tt_site *site, const tt_args *args, int i,
                            int slot)
{
    if (!tt_site_has(site, i))
        return NULL;
    const int64_t n = tt__site_cols(site);
    return tt__as_floats(site->in[i].dtype, args->in[i], n,
                         (float *)args->scratch + slot * n);
}

static tt_status prepare_columns(tt_backend *backend, tt_site *site,
                                 tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes =
        2 * tt__site_cols(site) * (int64_t)sizeof(float);
    return TT_OK;
}

// ---- forward -------------------------------------------------------------

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "tx", "tf") && is_whole_row(site);
}

static tt_status run_layer_norm(void *state, const tt_site *site,
                                const tt_args *args)
{
    (void)state;
    const tt_norm_params *p = site->params;
    tt_simd_norm_args a = describe(site, args);
    a.epsilon = (float)p->eps;
    a.gamma = columns(site, args, 1, 0);
    a.beta = columns(site, args, 2, 1);
    a.y = args->out[0];
    a.mean = args->out[1];
    a.rstd = args->out[2];
    tt_simd_get()->norm->forward(&a);
    return TT_OK;
}

static tt_status run_rms_norm(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    const tt_norm_params *p = site->params;
    tt_simd_norm_args a = describe(site, args);
    a.is_rms = true;
    a.epsilon = (float)p->eps;
    a.gamma = columns(site, args, 1, 0);
    a.y = args->out[0];
    a.rstd = args->out[1];
    tt_simd_get()->norm->forward(&a);
    return TT_OK;
}

// ---- gradient of the rows ------------------------------------------------

static bool can_grad_x(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ttxf", "t") && is_whole_row(site);
}

// A pointer into an operand that the function only reads.
static float *readable(const void *p)
{
    return (float *)(uintptr_t)p;
}

static tt_status run_layer_norm_grad_x(void *state, const tt_site *site,
                                       const tt_args *args)
{
    (void)state;
    tt_simd_norm_args a = describe(site, args);
    a.d_y = args->in[1];
    a.gamma = columns(site, args, 2, 0);
    a.mean = readable(args->in[3]);
    a.rstd = readable(args->in[4]);
    a.d_x = args->out[0];
    tt_simd_get()->norm->backward_input(&a);
    return TT_OK;
}

static tt_status run_rms_norm_grad_x(void *state, const tt_site *site,
                                     const tt_args *args)
{
    (void)state;
    tt_simd_norm_args a = describe(site, args);
    a.is_rms = true;
    a.d_y = args->in[1];
    a.gamma = columns(site, args, 2, 0);
    a.rstd = readable(args->in[3]);
    a.d_x = args->out[0];
    tt_simd_get()->norm->backward_input(&a);
    return TT_OK;
}

// ---- gradient of the weights ---------------------------------------------

static bool can_grad_w(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ttf", "f");
}

static tt_status prepare_grad_w(tt_backend *backend, tt_site *site,
                                tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes = tt_simd_get()->norm->params_scratch_bytes(
        tt__site_rows(site), tt__site_cols(site));
    return TT_OK;
}

static tt_status run_layer_norm_grad_w(void *state, const tt_site *site,
                                       const tt_args *args)
{
    (void)state;
    tt_simd_norm_args a = describe(site, args);
    a.d_y = args->in[1];
    a.mean = readable(args->in[2]);
    a.rstd = readable(args->in[3]);
    a.d_gamma = args->out[0];
    a.d_beta = site->n_out > 1 ? args->out[1] : NULL;
    a.scratch = args->scratch;
    tt_simd_get()->norm->backward_params(&a);
    return TT_OK;
}

static tt_status run_rms_norm_grad_w(void *state, const tt_site *site,
                                     const tt_args *args)
{
    (void)state;
    tt_simd_norm_args a = describe(site, args);
    a.is_rms = true;
    a.d_y = args->in[1];
    a.rstd = readable(args->in[2]);
    a.d_gamma = args->out[0];
    a.accumulates = args->accumulate;
    a.scratch = args->scratch;
    tt_simd_get()->norm->backward_params(&a);
    return TT_OK;
}

const tt_kernel_def tt__cpu_norm_kernels[] = {
    {TT_KERNEL(cpu, layer_norm), .can = can, .prepare = prepare_columns,
     .run = run_layer_norm},
    {TT_KERNEL(cpu, layer_norm_grad_x), .can = can_grad_x,
     .prepare = prepare_columns, .run = run_layer_norm_grad_x},
    // A kernel accumulates into output 0 only. With dbeta there are two outputs.
    {TT_KERNEL(cpu, layer_norm_grad_w), .can = can_grad_w,
     .prepare = prepare_grad_w, .run = run_layer_norm_grad_w},
    {TT_KERNEL(cpu, rms_norm), .can = can, .prepare = prepare_columns,
     .run = run_rms_norm},
    {TT_KERNEL(cpu, rms_norm_grad_x), .can = can_grad_x,
     .prepare = prepare_columns, .run = run_rms_norm_grad_x},
    {TT_KERNEL(cpu, rms_norm_grad_w), .accumulates = true, .can = can_grad_w,
     .prepare = prepare_grad_w, .run = run_rms_norm_grad_w},
    {0},
};
