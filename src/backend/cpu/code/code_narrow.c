// code_narrow - kernels of numbers in 16 bits that are added as they are.

#include "backend/cpu/wrap.h"
#include "ops/codec/narrow.h"
#include "ops/ops.h"

static bool can_narrow(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_is_plain(site) && site->in[0].dtype == TT_F32;
}

static bool can_widen(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_is_plain(site) && site->out[0].dtype == TT_F32;
}

static tt_status run_narrow(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    const tt_narrow_params *p = site->params;
    const bool has_residual = tt_site_has(site, TT_NARROW_RESIDUAL);
    const tt_simd_narrow_args a = {
        .n = tt_operand_count(&site->in[TT_NARROW_X]),
        .is_half = site->out[0].dtype == TT_F16,
        .scale = (float)p->scale,
        .limit = tt_narrow_limit(p),
        .x = args->in[TT_NARROW_X],
        .residual = has_residual ? args->in[TT_NARROW_RESIDUAL] : NULL,
        .left = has_residual ? args->out[1] : NULL,
        .code = args->out[0],
    };
    tt_simd_get()->code_narrow->narrow(&a);
    return TT_OK;
}

static tt_status run_widen(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    const tt_narrow_params *p = site->params;
    tt_simd_get()->code_narrow->widen(site->in[0].dtype == TT_F16, args->in[0],
                                      1 / (float)p->scale, args->out[0],
                                      tt_operand_count(&site->out[0]));
    return TT_OK;
}

const tt_kernel_def tt__cpu_code_narrow_kernels[] = {
    {TT_KERNEL(cpu, narrow), .can = can_narrow, .run = run_narrow},
    {TT_KERNEL(cpu, widen), .can = can_widen, .run = run_widen},
    {0},
};
