// norm - reference kernels of layer norm, RMS norm and their parts.
//
// The parts work on a slice of a row that is split over ranks. Means divide by the
// length of the whole row, so that the results of the slices are terms of the mean.

#include "ops/nn/norm.h"

#include "backend/ref/ref.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

#include <math.h>

// Rows of a tensor and one weight per column; absent operands read as given.
typedef struct rows {
    const tt_site *site;
    const tt_args *args;
    int64_t n_rows, n; // local
    int64_t n_whole;   // extent of the whole row
} rows;

static rows rows_of(const tt_site *site, const tt_args *args)
{
    const tt_local *x = &site->in[0].local;
    const int last = x->shape.ndim - 1;
    const int64_t n = tt_shape_dim(&x->shape, last);
    return (rows){site, args, tt_shape_count(&x->shape) / n, n,
                  tt_position_extent(x, last)};
}

static double load(const rows *r, int i, int64_t at, double otherwise)
{
    if (!tt_site_has(r->site, i))
        return otherwise;
    return tt_dtype_load(r->site->in[i].dtype, r->args->in[i], at);
}

static void store(const rows *r, int i, int64_t at, double value)
{
    tt_dtype_store(r->site->out[i].dtype, r->args->out[i], at, value);
}

// This rank's term of the mean over row k of (x - center)^power.
static double moment(const rows *r, int64_t k, double center, int power)
{
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const double x = load(r, 0, k * r->n + i, 0) - center;
        sum += power == 2 ? x * x : x;
    }
    return sum / (double)r->n_whole;
}

static tt_status run_layer_norm(void *state, const tt_site *site,
                                const tt_args *args)
{
    (void)state;
    const tt_norm_params *p = site->params;
    const rows r = rows_of(site, args);
    for (int64_t k = 0; k < r.n_rows; k++) {
        const double mean = moment(&r, k, 0, 1);
        const double rstd = 1 / sqrt(moment(&r, k, mean, 2) + p->eps);
        for (int64_t i = 0; i < r.n; i++)
            store(&r, 0, k * r.n + i,
                  (load(&r, 0, k * r.n + i, 0) - mean) * rstd *
                          load(&r, 1, i, 1) +
                      load(&r, 2, i, 0));
        store(&r, 1, k, mean);
        store(&r, 2, k, rstd);
    }
    return TT_OK;
}

static tt_status run_rms_norm(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    const tt_norm_params *p = site->params;
    const rows r = rows_of(site, args);
    for (int64_t k = 0; k < r.n_rows; k++) {
        const double rstd = 1 / sqrt(moment(&r, k, 0, 2) + p->eps);
        for (int64_t i = 0; i < r.n; i++)
            store(&r, 0, k * r.n + i,
                  load(&r, 0, k * r.n + i, 0) * rstd * load(&r, 1, i, 1));
        store(&r, 1, k, rstd);
    }
    return TT_OK;
}

static tt_status run_moment(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    const tt_row_moment_params *p = site->params;
    const rows r = rows_of(site, args);
    for (int64_t k = 0; k < r.n_rows; k++)
        store(&r, 0, k, moment(&r, k, load(&r, 1, k, 0), (int)p->power));
    return TT_OK;
}

static tt_status run_rsqrt(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    const tt_norm_params *p = site->params;
    const int64_t n = tt_operand_count(&site->out[0]);
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(
            site->out[0].dtype, args->out[0], i,
            1 / sqrt(tt_dtype_load(site->in[0].dtype, args->in[0], i) +
                     p->eps));
    return TT_OK;
}

static tt_status run_apply(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    const rows r = rows_of(site, args);
    for (int64_t k = 0; k < r.n_rows * r.n; k++) {
        const int64_t row = k / r.n, i = k % r.n;
        store(&r, 0, k,
              (load(&r, 0, k, 0) - load(&r, 3, row, 0)) * load(&r, 4, row, 1) *
                      load(&r, 1, i, 1) +
                  load(&r, 2, i, 0));
    }
    return TT_OK;
}

// The gradient operators' inputs: x, dy, gamma, then at `mean` (-1: none) and
// `rstd` the statistics.
typedef struct grads {
    rows r;
    int mean, rstd;
} grads;

static double xhat(const grads *g, int64_t k, int64_t i)
{
    const double mean = g->mean < 0 ? 0 : load(&g->r, g->mean, k, 0);
    return (load(&g->r, 0, k * g->r.n + i, 0) - mean) *
           load(&g->r, g->rstd, k, 1);
}

static double scaled_dy(const grads *g, int64_t k, int64_t i)
{
    return load(&g->r, 1, k * g->r.n + i, 0) * load(&g->r, 2, i, 1);
}

// This rank's terms of mean(g * xhat) and mean(g).
static void grad_moments(const grads *g, int64_t k, double *b_out,
                         double *a_out)
{
    double a = 0, b = 0;
    for (int64_t i = 0; i < g->r.n; i++) {
        a += scaled_dy(g, k, i);
        b += scaled_dy(g, k, i) * xhat(g, k, i);
    }
    *a_out = a / (double)g->r.n_whole;
    *b_out = b / (double)g->r.n_whole;
}

static void grad_row(const grads *g, int64_t k, double b, double a)
{
    for (int64_t i = 0; i < g->r.n; i++)
        store(&g->r, 0, k * g->r.n + i,
              load(&g->r, g->rstd, k, 1) *
                  (scaled_dy(g, k, i) - a - xhat(g, k, i) * b));
}

static void run_grad_x(const grads *g)
{
    for (int64_t k = 0; k < g->r.n_rows; k++) {
        double a, b;
        grad_moments(g, k, &b, &a);
        grad_row(g, k, b, g->mean < 0 ? 0 : a);
    }
}

tt_status tt__ref_layer_norm_grad_x(void *state, const tt_site *site,
                                    const tt_args *args)
{
    (void)state;
    run_grad_x(&(grads){rows_of(site, args), 3, 4});
    return TT_OK;
}

tt_status tt__ref_rms_norm_grad_x(void *state, const tt_site *site,
                                  const tt_args *args)
{
    (void)state;
    run_grad_x(&(grads){rows_of(site, args), -1, 3});
    return TT_OK;
}

static void run_grad_w(const grads *g)
{
    for (int64_t i = 0; i < g->r.n; i++) {
        double dgamma = 0, dbeta = 0;
        for (int64_t k = 0; k < g->r.n_rows; k++) {
            const double dy = load(&g->r, 1, k * g->r.n + i, 0);
            dgamma += dy * xhat(g, k, i);
            dbeta += dy;
        }
        store(&g->r, 0, i, dgamma);
        if (g->r.site->n_out > 1)
            store(&g->r, 1, i, dbeta);
    }
}

tt_status tt__ref_layer_norm_grad_w(void *state, const tt_site *site,
                                    const tt_args *args)
{
    (void)state;
    run_grad_w(&(grads){rows_of(site, args), 2, 3});
    return TT_OK;
}

tt_status tt__ref_rms_norm_grad_w(void *state, const tt_site *site,
                                  const tt_args *args)
{
    (void)state;
    run_grad_w(&(grads){rows_of(site, args), -1, 2});
    return TT_OK;
}

static tt_status run_grad_moments(void *state, const tt_site *site,
                                  const tt_args *args)
{
    (void)state;
    const grads g = {rows_of(site, args), 3, 4};
    for (int64_t k = 0; k < g.r.n_rows; k++) {
        double a, b;
        grad_moments(&g, k, &b, &a);
        store(&g.r, 0, k, b);
        if (site->n_out > 1)
            store(&g.r, 1, k, a);
    }
    return TT_OK;
}

static tt_status run_grad_apply(void *state, const tt_site *site,
                                const tt_args *args)
{
    (void)state;
    const grads g = {rows_of(site, args), 3, 4};
    for (int64_t k = 0; k < g.r.n_rows; k++)
        grad_row(&g, k, load(&g.r, 5, k, 0), load(&g.r, 6, k, 0));
    return TT_OK;
}

const tt_kernel_def tt__ref_norm_kernels[] = {
    {TT_KERNEL(ref, layer_norm), .run = run_layer_norm},
    {TT_KERNEL(ref, layer_norm_grad_w), .run = tt__ref_layer_norm_grad_w},
    {TT_KERNEL(ref, layer_norm_grad_x), .run = tt__ref_layer_norm_grad_x},
    {TT_KERNEL(ref, norm_apply), .run = run_apply},
    {TT_KERNEL(ref, norm_grad_apply), .run = run_grad_apply},
    {TT_KERNEL(ref, norm_grad_moments), .run = run_grad_moments},
    {TT_KERNEL(ref, rms_norm), .run = run_rms_norm},
    {TT_KERNEL(ref, rms_norm_grad_w), .run = tt__ref_rms_norm_grad_w},
    {TT_KERNEL(ref, rms_norm_grad_x), .run = tt__ref_rms_norm_grad_x},
    {TT_KERNEL(ref, row_moment), .run = run_moment},
    {TT_KERNEL(ref, rsqrt), .run = run_rsqrt},
    {0},
};
