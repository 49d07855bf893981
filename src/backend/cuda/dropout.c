// dropout - the mask follows from the element's place among all samples, so it is the
// same on every device. Bound by the random numbers: ten rounds for four elements.

#include "backend/cuda/cuda.h"
#include "base/rng.h"
#include "ops/act/activation.h"
#include "ops/ops.h"

#include <string.h>

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "sI", "s") && site->in[0].local.gap == 0;
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    const tt_dropout_params *p = site->params;
    const tt_local *x = &site->in[0].local;
    const bool has_samples = site->n_in >= 5;
    tt_cuda_dropout_args a = {
        .type = site->in[0].dtype,
        .n = tt_operand_count(&site->in[0]),
        .p = p->p,
        .origin_hash = tt_hash(site->origin, (int64_t)strlen(site->origin)),
        .n_factors = x->shape.n_factors,
        .batch = has_samples ? tt_shape_find(&x->shape, "batch") : -1,
        .seed = args->in[1],
        .step = args->in[2],
        .first = has_samples ? args->in[3] : NULL,
        .samples = has_samples ? args->in[4] : NULL,
        .x = args->in[0],
        .y = args->out[0]};
    for (int f = 0; f < a.n_factors; f++) {
        a.size[f] = x->shape.factor[f].size;
        a.origin[f] = x->origin[f];
        a.global[f] = x->global[f];
    }
    return TT__CUDA(state, dropout, &a);
}

const tt_kernel_def tt__cuda_dropout_kernels[] = {
    {TT__CUDA_KERNEL(dropout), .in_place = true, .can = can, .run = run},
    {0},
};
