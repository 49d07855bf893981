// dropout - finds where a rank's elements are in the whole tensor.
//
// An element is kept or dropped by a random number that is a function of its global
// index. So a rank that holds a part must know the global index of every element. The
// vectorised function takes parts that are rows of neighbours, a fixed step apart:
//
//   whole    . . . . . . . . . . . .       start = 2, step = 6, cols = 3
//            . . # # # . . . # # # .       rows = 2
//
// A zigzag split (sequences of causal attention) gives a rank two runs. It is cut at
// the turn into two pieces, each of which has that form.

#include "backend/cpu/wrap.h"
#include "base/rng.h"
#include "ops/act/activation.h"
#include "ops/ops.h"

typedef struct runs {
    int64_t rows, cols, start, step;
} runs;

// Describes a part as rows of neighbours; false when it is none.
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

// A part cut at its turn: what comes before the turn, and what comes after it. With
// outer factors the two alternate in memory, once for each entry of those factors.
typedef struct pieces {
    int64_t n; // both pieces of every entry
    tt_local local[2];
} pieces;

static pieces cut(const tt_local *x)
{
    pieces p = {.n = 1, .local = {*x, *x}};
    const int f = x->turn_factor;
    if (x->gap == 0)
        return p;
    p.n = 2;
    p.local[0].gap = p.local[1].gap = 0;
    p.local[0].shape.factor[f].size = x->turn;
    p.local[1].shape.factor[f].size -= x->turn;
    p.local[1].origin[f] = tt_local_at(x, f, x->turn);
    for (int k = 0; k < f; k++) {
        p.n *= x->shape.factor[k].size;
        p.local[0].shape.factor[k].size = p.local[1].shape.factor[k].size = 1;
    }
    return p;
}

// The global index of entry i of the outer factors, relative to the first one.
static int64_t entry_start(const tt_local *x, int64_t i)
{
    int64_t stride = 1, at = 0;
    for (int f = x->shape.n_factors - 1; f >= 0; f--) {
        if (x->gap != 0 && f < x->turn_factor) {
            at += i % x->shape.factor[f].size * stride;
            i /= x->shape.factor[f].size;
        }
        stride *= x->global[f];
    }
    return at;
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    runs r;
    tt_local local = site->in[0].local;
    const int f = tt_shape_find(&local.shape, "batch");
    if (site->n_in == 5 && f >= 0)
        local.global[f]++; // a part of more samples, at run time
    const pieces p = cut(&local);
    return tt__site_has_types(site, "tIIII", "t") &&
           find_runs(&p.local[0], &r) && find_runs(&p.local[1], &r);
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_dropout_params *params = site->params;
    const tt_local local = tt_dropout_local(site, args->in);
    const pieces p = cut(&local);
    const int64_t bytes = tt_dtype_bytes(site->in[0].dtype);
    const uint64_t seed = (uint64_t) * (const int64_t *)args->in[1];
    const uint64_t step = (uint64_t) * (const int64_t *)args->in[2];
    int64_t at = 0;
    for (int64_t i = 0; i < p.n; i++) {
        runs r;
        (void)find_runs(&p.local[i % 2], &r);
        const tt_simd_dropout_args a = {
            .type = tt__simd_type_of(site->in[0].dtype),
            .rows = r.rows,
            .cols = r.cols,
            .key = tt_rng_key(seed, site->origin, step),
            .start = (uint64_t)(r.start + entry_start(&local, i / 2)),
            .row_step = (uint64_t)r.step,
            .p = params->p,
            .x = (const char *)args->in[0] + at * bytes,
            .y = (char *)args->out[0] + at * bytes,
        };
        tt_simd_get()->dropout->apply(&a);
        at += r.rows * r.cols;
    }
    return TT_OK;
}

const tt_kernel_def tt__cpu_dropout_kernels[] = {
    {TT_KERNEL(cpu, dropout), .in_place = true, .can = can, .run = run},
    {0},
};
