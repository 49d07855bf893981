// clip - the global norm of gradients, clipping by it, and the guard that can skip
// an update. Scalars stay on the device, so the host does
// not wait for them; sums are in double and in a fixed order.

#include "ops/optim/clip.h"

#include "backend/cuda/cuda.h"
#include "ops/ops.h"
#include "ops/scaling.h"

// ---- sum_squares: bound by reading x once ---------------------------------

static bool can_squares(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types_in_layouts(site, "y", "f"); // in any order
}

static tt_status prepare_squares(tt_backend *backend, tt_site *site,
                                 tt_prepared *prepared_out)
{
    prepared_out->scratch_bytes =
        (1 + TT_CUDA_SQUARES_BLOCKS) * (int64_t)sizeof(double);
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_status run_squares(void *state, const tt_site *site,
                             const tt_args *args)
{
    for (int k = 0; k < site->n_in; k++) {
        const tt_cuda_squares_args a = {.type = site->in[k].dtype,
                                        .y_type = site->out[0].dtype,
                                        .n = tt_operand_count(&site->in[k]),
                                        .first = k == 0,
                                        .is_only = site->n_in == 1,
                                        .x = args->in[k],
                                        .y = args->out[0],
                                        .scratch = args->scratch};
        TT_TRY(TT__CUDA(state, squares, &a));
    }
    return TT_OK;
}

// ---- numbers -------------------------------------------------------------

static tt_status prepare_total(tt_backend *backend, tt_site *site,
                               tt_prepared *prepared_out)
{
    prepared_out->scratch_bytes = sizeof(double);
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_status run_total(void *state, const tt_site *site,
                           const tt_args *args)
{
    for (int k = 0; k < site->n_in; k += TT_CUDA_TOTAL) {
        const int left = site->n_in - k;
        tt_cuda_total_args a = {.n =
                                    left < TT_CUDA_TOTAL ? left : TT_CUDA_TOTAL,
                                .first = k == 0,
                                .last = left <= TT_CUDA_TOTAL,
                                .y_type = site->out[0].dtype,
                                .y = args->out[0],
                                .scratch = args->scratch};
        for (int i = 0; i < a.n; i++) {
            a.in[i] = args->in[k + i];
            a.in_type[i] = site->in[k + i].dtype;
        }
        TT_TRY(TT__CUDA(state, total, &a));
    }
    return TT_OK;
}

static tt_status run_clip(void *state, const tt_site *site, const tt_args *args)
{
    const tt_clip_params *p = site->params;
    const bool has_norm = tt_site_has(site, 0);
    const tt_cuda_clip_args a = {
        .max_norm = p->max_norm,
        .type = {site->in[0].dtype, site->in[1].dtype, site->out[0].dtype,
                 has_norm ? site->out[1].dtype : TT_F32},
        .sumsq = has_norm ? args->in[0] : NULL,
        .count = args->in[1],
        .scale = args->out[0],
        .norm = has_norm ? args->out[1] : NULL};
    return TT__CUDA(state, clip, &a);
}

static tt_status run_guard(void *state, const tt_site *site,
                           const tt_args *args)
{
    tt_cuda_guard_args a = {.y = args->out[0]};
    for (int i = 0; i < TT_GUARD_N; i++) {
        a.type[i] = site->in[i].dtype;
        a.in[i] = args->in[i];
    }
    a.type[TT_GUARD_N] = site->out[0].dtype;
    return TT__CUDA(state, guard, &a);
}

static tt_status run_loss_scale(void *state, const tt_site *site,
                                const tt_args *args)
{
    const tt_loss_scale_params *p = site->params;
    tt_cuda_loss_scale_args a = {.growth = p->growth,
                                 .least = TT_LOSS_SCALE_LEAST,
                                 .most = TT_LOSS_SCALE_MOST,
                                 .scale = args->out[0],
                                 .good = args->out[1]};
    for (int i = 0; i < TT_LS_N; i++) {
        a.type[i] = site->in[i].dtype;
        a.in[i] = args->in[i];
    }
    a.type[TT_LS_N] = site->out[0].dtype;
    a.type[TT_LS_N + 1] = site->out[1].dtype;
    return TT__CUDA(state, loss_scale, &a);
}

const tt_kernel_def tt__cuda_clip_kernels[] = {
    {TT_KERNEL(cuda, sum_squares), .can = can_squares,
     .prepare = prepare_squares, .run = run_squares},
    {TT_KERNEL(cuda, total), .prepare = prepare_total, .run = run_total},
    {TT__CUDA_KERNEL(clip), .run = run_clip},
    {TT__CUDA_KERNEL(guard), .run = run_guard},
    {TT__CUDA_KERNEL(loss_scale), .run = run_loss_scale},
    {0},
};
