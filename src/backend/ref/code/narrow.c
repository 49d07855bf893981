// narrow - reference kernels of numbers in 16 bits.

#include "ops/codec/narrow.h"

#include "backend/kernel.h"
#include "backend/ref/code/packets.h"
#include "ops/ops.h"

#include <math.h>

static tt_status run_narrow(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    const tt_narrow_params *p = site->params;
    const tt_operand *x = &site->in[TT_NARROW_X];
    const bool has_residual = tt_site_has(site, TT_NARROW_RESIDUAL);
    const bool is_wide = x->dtype == TT_F64;
    const float limit = tt_narrow_limit(p), scale = (float)p->scale;
    const tt_dtype to = site->out[0].dtype;
    for (int64_t i = 0; i < tt_operand_count(x); i++) {
        double e = tt_dtype_load(x->dtype, args->in[TT_NARROW_X], i);
        if (has_residual) {
            const double r = tt_dtype_load(site->in[TT_NARROW_RESIDUAL].dtype,
                                           args->in[TT_NARROW_RESIDUAL], i);
            e = is_wide ? e + r : (double)((float)e + (float)r);
        }
        float scaled = (float)e * scale;
        scaled = scaled > limit ? limit : scaled < -limit ? -limit : scaled;
        // Infinity is a fault that must be seen, not a large number.
        scaled = isinf((float)e) ? (float)e : scaled;
        tt_dtype_store(to, args->out[0], i, (double)scaled);
        const float sent = (float)tt_dtype_load(to, args->out[0], i);
        if (has_residual)
            tt_dtype_store(
                site->out[1].dtype, args->out[1], i,
                tt__ref_left(is_wide, e, (double)(sent * (1 / scale))));
    }
    return TT_OK;
}

static tt_status run_widen(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    const tt_narrow_params *p = site->params;
    const tt_operand *y = &site->out[0];
    const float back = 1 / (float)p->scale;
    for (int64_t i = 0; i < tt_operand_count(y); i++)
        tt_dtype_store(
            y->dtype, args->out[0], i,
            (double)((float)tt_dtype_load(site->in[0].dtype, args->in[0], i) *
                     back));
    return TT_OK;
}

const tt_kernel_def tt__ref_narrow_kernels[] = {
    {TT_KERNEL(ref, narrow), .run = run_narrow},
    {TT_KERNEL(ref, widen), .run = run_widen},
    {0},
};
