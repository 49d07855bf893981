// dropout - the mask follows from the global index, so a part needs to know where
// its elements are in the whole: runs of neighbours, a fixed step apart.

#include "backend/cpu/wrap.h"
#include "base/rng.h"
#include "ops/activation.h"
#include "ops/ops.h"

typedef struct runs {
    int64_t rows, cols, start, step;
} runs;

// False when the part does not consist of such runs.
static bool find_runs(const tt_local *x, runs *out)
{
    int64_t stride = 1; // of the factor in the whole
    int64_t extent[2] = {1, 1}, step[2] = {1, 1};
    int n = 0; // 0: in the columns, 1: in the rows
    *out = (runs){.start = 0};
    for (int f = x->shape.n_factors - 1; f >= 0; f--) {
        const int64_t size = x->shape.factor[f].size;
        out->start += x->origin[f] * stride;
        if (size > 1) {
            if (stride != extent[n] * step[n] && ++n < 2)
                step[n] = stride;
            if (n == 2)
                return false;
            extent[n] *= size;
        }
        stride *= x->global[f];
    }
    out->cols = extent[0];
    out->rows = extent[1];
    out->step = step[1];
    return true;
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    runs r;
    tt_local local = site->in[0].local;
    const int f = tt_shape_find(&local.shape, "batch");
    if (site->n_in == 5 && f >= 0)
        local.global[f]++; // a part of more samples, at run time
    return tt__site_has_types(site, "tIIII", "t") && find_runs(&local, &r);
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_dropout_params *p = site->params;
    runs r;
    const tt_local local = tt_dropout_local(site, args->in);
    (void)find_runs(&local, &r);
    const uint64_t seed = (uint64_t) * (const int64_t *)args->in[1];
    const uint64_t step = (uint64_t) * (const int64_t *)args->in[2];
    const tt_simd_dropout_args a = {
        .type = tt__simd_type(site->in[0].dtype),
        .rows = r.rows,
        .cols = r.cols,
        .key = tt_rng_key(seed, site->origin, step),
        .start = (uint64_t)r.start,
        .row_step = (uint64_t)r.step,
        .p = p->p,
        .x = args->in[0],
        .y = args->out[0],
    };
    tt_simd_get()->dropout->apply(&a);
    return TT_OK;
}

const tt_kernel_def tt_kernel_cpu_dropout = {
    .name = "cpu.dropout",
    .op = &tt_op_dropout,
    .in_place = true,
    .can = can,
    .run = run,
};
