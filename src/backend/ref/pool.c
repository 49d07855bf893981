// Pooling and its gradients - reference kernels. Every channel of every sample is a
// plane of up to three dimensions, and is pooled by itself. Gradients of overlapping
// windows are added in the result itself: sums of few terms, in the result's precision.

#include "ops/nn/pool.h"

#include "backend/ref/ref.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

// One plane of input and output, and an output position in it.
typedef struct plane {
    tt_slide slide[TT_MAX_SPATIAL];
    int64_t x, y; // first elements
    int64_t o[TT_MAX_SPATIAL];
} plane;

static int64_t in_points(const plane *p)
{
    return p->slide[0].in * p->slide[1].in * p->slide[2].in;
}

static int64_t out_points(const plane *p)
{
    return p->slide[0].out * p->slide[1].out * p->slide[2].out;
}

static int64_t kernel_points(const plane *p)
{
    return p->slide[0].kernel * p->slide[1].kernel * p->slide[2].kernel;
}

// Moves to output i of the plane.
static void seek(plane *p, int64_t i)
{
    for (int d = TT_MAX_SPATIAL - 1; d >= 0; d--) {
        p->o[d] = i % p->slide[d].out;
        i /= p->slide[d].out;
    }
}

// The element of x under window entry k; -1: padding.
static int64_t entry(const plane *p, int64_t k)
{
    int64_t at[TT_MAX_SPATIAL];
    for (int d = TT_MAX_SPATIAL - 1; d >= 0; d--) {
        const tt_slide *s = &p->slide[d];
        at[d] = tt_slide_at(s, p->o[d], k % s->kernel);
        k /= s->kernel;
        if (at[d] < 0 || at[d] >= s->in)
            return -1;
    }
    return p->x + (at[0] * p->slide[1].in + at[1]) * p->slide[2].in + at[2];
}

// Calls `visit` for every output of every plane: x and y are the operands with
// the shapes of input and output.
typedef void visit_fn(const plane *p, int64_t y, const tt_site *site,
                      const tt_args *args);

static void each_output(const tt_operand *x, const tt_operand *y,
                        visit_fn *visit, const tt_site *site,
                        const tt_args *args)
{
    const tt_pool_params *params = site->params;
    plane p;
    tt_pool_slides(params, &x->local, &y->local, p.slide);
    const int64_t planes = tt_operand_dim(x, 0) * tt_operand_dim(x, 1);
    for (int64_t n = 0; n < planes; n++) {
        p.x = n * in_points(&p);
        p.y = n * out_points(&p);
        for (int64_t i = 0; i < out_points(&p); i++) {
            seek(&p, i);
            visit(&p, p.y + i, site, args);
        }
    }
}

static void clear(const tt_operand *o, void *base)
{
    memset(base, 0, (size_t)(tt_operand_count(o) * tt_dtype_bytes(o->dtype)));
}

static void add_to(const tt_operand *o, void *base, int64_t i, double value)
{
    tt_dtype_store(o->dtype, base, i, tt_dtype_load(o->dtype, base, i) + value);
}

static void visit_max(const plane *p, int64_t y, const tt_site *site,
                      const tt_args *args)
{
    double best = 0;
    int64_t where = -1;
    for (int64_t k = 0; k < kernel_points(p); k++) {
        const int64_t at = entry(p, k);
        if (at < 0)
            continue;
        const double x = tt_dtype_load(site->in[0].dtype, args->in[0], at);
        if (where < 0 || x > best || (isnan(x) && !isnan(best))) {
            best = x;
            where = k;
        }
    }
    tt_dtype_store(site->out[0].dtype, args->out[0], y, best);
    tt_dtype_store(site->out[1].dtype, args->out[1], y, (double)where);
}

static tt_status run_max(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    each_output(&site->in[0], &site->out[0], visit_max, site, args);
    return TT_OK;
}

static void visit_max_grad(const plane *p, int64_t y, const tt_site *site,
                           const tt_args *args)
{
    const double k = tt_dtype_load(site->in[1].dtype, args->in[1], y);
    const int64_t at = entry(p, (int64_t)k);
    if (at >= 0)
        add_to(&site->out[0], args->out[0], at,
               tt_dtype_load(site->in[0].dtype, args->in[0], y));
}

static tt_status run_max_grad(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    clear(&site->out[0], args->out[0]);
    each_output(&site->out[0], &site->in[0], visit_max_grad, site, args);
    return TT_OK;
}

// What the sum under the window is divided by. Only positions outside of the whole
// input are padding; a neighbour's entries in the halo are not.
static double divisor(const plane *p, const tt_pool_params *params)
{
    if (params->count_pad)
        return (double)kernel_points(p);
    int64_t n = 1;
    for (int d = 0; d < TT_MAX_SPATIAL; d++) {
        const tt_slide *s = &p->slide[d];
        int64_t inside = 0;
        for (int64_t k = 0; k < s->kernel; k++) {
            const int64_t at = tt_slide_at(s, p->o[d], k) + s->origin;
            inside += at >= 0 && at < s->whole_in;
        }
        n *= inside;
    }
    return n == 0 ? 1 : (double)n;
}

static void visit_avg(const plane *p, int64_t y, const tt_site *site,
                      const tt_args *args)
{
    double sum = 0;
    for (int64_t k = 0; k < kernel_points(p); k++) {
        const int64_t at = entry(p, k);
        if (at >= 0)
            sum += tt_dtype_load(site->in[0].dtype, args->in[0], at);
    }
    tt_dtype_store(site->out[0].dtype, args->out[0], y,
                   sum / divisor(p, site->params));
}

static tt_status run_avg(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    each_output(&site->in[0], &site->out[0], visit_avg, site, args);
    return TT_OK;
}

static void visit_avg_grad(const plane *p, int64_t y, const tt_site *site,
                           const tt_args *args)
{
    const double dy = tt_dtype_load(site->in[0].dtype, args->in[0], y) /
                      divisor(p, site->params);
    for (int64_t k = 0; k < kernel_points(p); k++) {
        const int64_t at = entry(p, k);
        if (at >= 0)
            add_to(&site->out[0], args->out[0], at, dy);
    }
}

static tt_status run_avg_grad(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    clear(&site->out[0], args->out[0]);
    each_output(&site->out[0], &site->in[0], visit_avg_grad, site, args);
    return TT_OK;
}

// ---- adaptive ----

// The windows along one dimension. They are defined on the whole input, of which this
// rank has a part. Missing dimensions have extent 1 and come first.
typedef struct cover {
    int64_t in, out, origin, whole_in;
} cover;

static void covers_of(const tt_local *x, const tt_local *y,
                      cover cover_out[TT_MAX_SPATIAL])
{
    const int n = x->shape.ndim - 2;
    for (int i = 0; i < n; i++) {
        const int f = x->shape.first[i + 2];
        cover_out[TT_MAX_SPATIAL - n + i] =
            (cover){tt_shape_dim(&x->shape, i + 2),
                    tt_shape_dim(&y->shape, i + 2), x->origin[f], x->global[f]};
    }
}

// The share of input i in window o along one dimension: 1 / size, or 0.
static double share(const cover *c, int64_t i, int64_t o)
{
    const int64_t lo = tt_adaptive_lo(o, c->whole_in, c->out);
    const int64_t hi = tt_adaptive_hi(o, c->whole_in, c->out);
    const int64_t at = i + c->origin;
    return at >= lo && at < hi ? 1 / (double)(hi - lo) : 0;
}

static double share_at(const cover c[TT_MAX_SPATIAL], int64_t i, int64_t o)
{
    double product = 1;
    for (int d = TT_MAX_SPATIAL - 1; d >= 0; d--) {
        product *= share(&c[d], i % c[d].in, o % c[d].out);
        i /= c[d].in;
        o /= c[d].out;
    }
    return product;
}

// to[a] = sum over b of share * from[b], in every plane. `backward`: `to` is the
// input.
static void spread(const tt_site *site, const tt_args *args, bool backward)
{
    const tt_operand *from = &site->in[0], *to = &site->out[0];
    const tt_operand *x = backward ? to : from, *y = backward ? from : to;
    cover c[TT_MAX_SPATIAL] = {{1, 1, 0, 1}, {1, 1, 0, 1}, {1, 1, 0, 1}};
    covers_of(&x->local, &y->local, c);
    const int64_t planes = tt_operand_dim(x, 0) * tt_operand_dim(x, 1);
    const int64_t n_from = tt_operand_count(from) / planes;
    const int64_t n_to = tt_operand_count(to) / planes;
    for (int64_t p = 0; p < planes; p++)
        for (int64_t a = 0; a < n_to; a++) {
            double sum = 0;
            for (int64_t b = 0; b < n_from; b++)
                sum += share_at(c, backward ? a : b, backward ? b : a) *
                       tt_dtype_load(from->dtype, args->in[0], p * n_from + b);
            tt_dtype_store(to->dtype, args->out[0], p * n_to + a, sum);
        }
}

static tt_status run_adaptive(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    spread(site, args, false);
    return TT_OK;
}

static tt_status run_adaptive_grad(void *state, const tt_site *site,
                                   const tt_args *args)
{
    (void)state;
    spread(site, args, true);
    return TT_OK;
}

const tt_kernel_def tt__ref_pool_kernels[] = {
    {TT_KERNEL(ref, max_pool), .run = run_max},
    {TT_KERNEL(ref, max_pool_grad), .run = run_max_grad},
    {TT_KERNEL(ref, avg_pool), .run = run_avg},
    {TT_KERNEL(ref, avg_pool_grad), .run = run_avg_grad},
    {TT_KERNEL(ref, adaptive_avg_pool), .run = run_adaptive},
    {TT_KERNEL(ref, adaptive_avg_pool_grad), .run = run_adaptive_grad},
    {0},
};
