// ema - moving averages, which lie as their weights do.

#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/ops.h"
#include "ops/optim/optim.h"

enum { AVERAGE, W, SKIP };

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return site->in[AVERAGE].dtype == TT_F32 && site->in[W].dtype == TT_F32;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    int64_t *n = tt_alloc(sizeof *n); // elements, with padding
    if (n == NULL)
        return tt_fail(TT_ERR_NOMEM, "ema: no memory for a kernel");
    tt__operand_set_layout(&site->in[AVERAGE], site->in[W].layout);
    tt__operand_set_layout(&site->out[0], site->in[W].layout);
    *n = tt_target_bytes(&backend->target, &site->in[W]) /
         tt_dtype_bytes(TT_F32);
    prepared_out->state = n;
    return TT_OK;
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    const int64_t n = *(const int64_t *)state;
    const tt_ema_params *p = site->params;
    if (args->in[AVERAGE] != args->out[0])
        tt_simd_get()->elementwise->cast(TT_SIMD_F32, args->in[AVERAGE],
                                         TT_SIMD_F32, args->out[0], n);
    if (tt__scalar_of(site, args, SKIP) != 0)
        return TT_OK;
    const tt_simd_optimizer_args a = {.n = n,
                                      .w = (float *)(uintptr_t)args->in[W],
                                      .v = args->out[0],
                                      .alpha = p->decay};
    tt_simd_get()->optimizer->ema(&a);
    return TT_OK;
}

const tt_kernel_def tt__cpu_ema_kernels[] = {
    {TT_KERNEL(cpu, ema), .can = can, .prepare = prepare, .run = run},
    {0},
};
