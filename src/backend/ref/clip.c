// clip - reference kernels of sum_squares, total, clip, guard and loss_scale.

#include "ops/optim/clip.h"

#include "backend/kernel.h"
#include "ops/ops.h"
#include "ops/scaling.h"

#include <math.h>

static tt_status run_sum_squares(void *state, const tt_site *site,
                                 const tt_args *args)
{
    (void)state;
    double sum = 0;
    for (int k = 0; k < site->n_in; k++) {
        const int64_t n = tt_operand_count(&site->in[k]);
        for (int64_t i = 0; i < n; i++) {
            const double x = tt_dtype_load(site->in[k].dtype, args->in[k], i);
            sum += x * x;
        }
    }
    tt_dtype_store(site->out[0].dtype, args->out[0], 0, sum);
    return TT_OK;
}

static tt_status run_total(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    double sum = 0;
    for (int k = 0; k < site->n_in; k++)
        sum += tt_dtype_load(site->in[k].dtype, args->in[k], 0);
    tt_dtype_store(site->out[0].dtype, args->out[0], 0, sum);
    return TT_OK;
}

static tt_status run_clip(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_clip_params *p = site->params;
    const double count = tt_dtype_load(site->in[1].dtype, args->in[1], 0);
    double scale = count > 0 ? 1 / count : 0;
    if (tt_site_has(site, 0)) {
        const double sumsq = tt_dtype_load(site->in[0].dtype, args->in[0], 0);
        const double norm = sqrt(sumsq) * scale;
        if (p->max_norm > 0)
            scale *= fmin(1, p->max_norm / (norm + 1e-6));
        tt_dtype_store(site->out[1].dtype, args->out[1], 0, norm);
    }
    tt_dtype_store(site->out[0].dtype, args->out[0], 0, scale);
    return TT_OK;
}

static tt_status run_guard(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    double in[TT_GUARD_N];
    for (int i = 0; i < TT_GUARD_N; i++)
        in[i] = tt_dtype_load(site->in[i].dtype, args->in[i], 0);
    const double mean =
        in[TT_GUARD_COUNT] > 0 ? in[TT_GUARD_LOSS] / in[TT_GUARD_COUNT] : 0;
    const bool is_bad = !isfinite(in[TT_GUARD_NORM]) ||
                        !isfinite(in[TT_GUARD_LOSS]) ||
                        mean > in[TT_GUARD_LIMIT];
    tt_dtype_store(site->out[0].dtype, args->out[0], 0,
                   is_bad || in[TT_GUARD_SKIP] != 0 ? 1 : 0);
    return TT_OK;
}

static tt_status run_loss_scale(void *state, const tt_site *site,
                                const tt_args *args)
{
    (void)state;
    const tt_loss_scale_params *p = site->params;
    double in[TT_LS_N];
    for (int i = 0; i < TT_LS_N; i++)
        in[i] = tt_dtype_load(site->in[i].dtype, args->in[i], 0);
    double scale = in[TT_LS_SCALE], good = in[TT_LS_GOOD];
    if (isfinite(in[TT_LS_LOSS]) && !isfinite(in[TT_LS_NORM])) {
        scale = fmax(scale / 2, TT_LOSS_SCALE_LEAST);
        good = 0;
    } else if (isfinite(in[TT_LS_LOSS])) {
        good++;
    }
    if (p->growth > 0 && good >= (double)p->growth) {
        scale = fmin(scale * 2, TT_LOSS_SCALE_MOST);
        good = 0;
    }
    tt_dtype_store(site->out[0].dtype, args->out[0], 0, scale);
    tt_dtype_store(site->out[1].dtype, args->out[1], 0, good);
    return TT_OK;
}

const tt_kernel_def tt__ref_clip_kernels[] = {
    {TT_KERNEL(ref, sum_squares), .run = run_sum_squares},
    {TT_KERNEL(ref, total), .run = run_total},
    {TT_KERNEL(ref, clip), .run = run_clip},
    {TT_KERNEL(ref, guard), .run = run_guard},
    {TT_KERNEL(ref, loss_scale), .run = run_loss_scale},
    {0},
};
