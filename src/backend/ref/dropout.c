// dropout - reference kernel.

#include "backend/kernel.h"
#include "base/rng.h"
#include "ops/act/activation.h"
#include "ops/ops.h"

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_dropout_params *p = site->params;
    const tt_operand *x = &site->in[0];
    const uint64_t seed = (uint64_t) * (const int64_t *)args->in[1];
    const uint64_t step = (uint64_t) * (const int64_t *)args->in[2];
    const uint64_t key = tt_rng_key(seed, site->origin, step);
    const double threshold = p->p * 4294967296.0;
    const double up = p->p < 1 ? 1 / (1 - p->p) : 0;
    const int64_t n = tt_operand_count(x);
    const tt_local local = tt_dropout_local(site, args->in);
    for (int64_t i = 0; i < n; i++) {
        const int64_t whole = tt_local_to_global(&local, i);
        const bool is_kept = tt_rng_u32(key, (uint64_t)whole) >= threshold;
        const double value = tt_dtype_load(x->dtype, args->in[0], i);
        tt_dtype_store(site->out[0].dtype, args->out[0], i,
                       is_kept ? value * up : 0);
    }
    return TT_OK;
}

const tt_kernel_def tt__ref_dropout_kernels[] = {
    {TT_KERNEL(ref, dropout), .in_place = true, .run = run},
    {0},
};
