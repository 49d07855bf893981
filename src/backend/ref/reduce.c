// reduce - reference kernels of broadcast, sum_to, reduce and reduce_max_grad. One walk
// over the larger operand; each element is added to its entry of the smaller one, which
// is collected in scratch memory as doubles and rounded at the end.

#include "backend/ref/elementwise.h"
#include "ops/arith.h"
#include "ops/ops.h"

#include <math.h>

// Where element i of the larger shape falls in the smaller one.
typedef struct projection {
    const tt_shape *big;
    int64_t stride[TT_MAX_DIMS];
} projection;

static projection project_broadcast(const tt_site *site, const tt_shape *small,
                                    const tt_shape *big)
{
    const tt_broadcast_params *p = site->params;
    projection pr = {.big = big};
    int map[TT_MAX_DIMS];
    (void)tt_broadcast_map(&p->dims, small, big, map);
    tt__ref_project(big, small, map, pr.stride);
    return pr;
}

static projection project_reduce(const tt_site *site, const tt_shape *small)
{
    const tt_reduce_params *p = site->params;
    projection pr = {.big = &site->in[0].local.shape};
    int map[TT_MAX_DIMS], next = 0;
    for (int d = 0; d < pr.big->ndim; d++) {
        const bool is_reduced = tt_reduce_has(p, d);
        map[d] = is_reduced ? -1 : next;
        next += !is_reduced || p->keep;
    }
    tt__ref_project(pr.big, small, map, pr.stride);
    return pr;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes =
        tt_operand_count(&site->out[0]) * (int64_t)sizeof(double);
    return TT_OK;
}

static tt_status run_broadcast(void *state, const tt_site *site,
                               const tt_args *args)
{
    (void)state;
    const projection pr = project_broadcast(site, &site->in[0].local.shape,
                                            &site->out[0].local.shape);
    const tt_operand *y = &site->out[0];
    const int64_t n = tt_operand_count(y);
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(y->dtype, args->out[0], i,
                       tt_dtype_load(site->in[0].dtype, args->in[0],
                                     tt__ref_offset(pr.big, pr.stride, i)));
    return TT_OK;
}

// result[projection of i] = reduction of x[i].
static void collect(const tt_site *site, const tt_args *args,
                    const projection *pr, bool is_max)
{
    double *result = args->scratch;
    const int64_t n = tt_operand_count(&site->in[0]);
    const int64_t n_results = tt_operand_count(&site->out[0]);
    for (int64_t k = 0; k < n_results; k++)
        result[k] = is_max ? -(double)INFINITY : 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = tt__ref_offset(pr->big, pr->stride, i);
        const double x = tt_dtype_load(site->in[0].dtype, args->in[0], i);
        if (!is_max)
            result[k] += x;
        else if (isnan(x) || x > result[k]) // a NaN stays
            result[k] = x;
    }
}

static tt_status run_sum_to(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    const projection pr = project_broadcast(site, &site->out[0].local.shape,
                                            &site->in[0].local.shape);
    const tt_operand *y = &site->out[0];
    const double *result = args->scratch;
    collect(site, args, &pr, false);
    for (int64_t k = 0; k < tt_operand_count(y); k++) {
        const double old =
            args->accumulate ? tt_dtype_load(y->dtype, args->out[0], k) : 0;
        tt_dtype_store(y->dtype, args->out[0], k, old + result[k]);
    }
    return TT_OK;
}

// Entries of the whole value, over all ranks, per result.
static double global_length(const tt_site *site)
{
    const tt_reduce_params *p = site->params;
    const tt_local *x = &site->in[0].local;
    double n = 1;
    for (int f = 0; f < x->shape.n_factors; f++)
        if (tt_reduce_has(p, tt_shape_dim_of(&x->shape, f)))
            n *= (double)x->global[f];
    return n;
}

static tt_status run_reduce(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    const tt_reduce_params *p = site->params;
    const tt_operand *y = &site->out[0];
    const double *result = args->scratch;
    const projection pr = project_reduce(site, &y->local.shape);
    const double length = p->op == TT_REDUCE_MEAN ? global_length(site) : 1;
    collect(site, args, &pr, p->op == TT_REDUCE_MAX);
    for (int64_t k = 0; k < tt_operand_count(y); k++)
        tt_dtype_store(y->dtype, args->out[0], k, result[k] / length);
    return TT_OK;
}

static tt_status run_max_grad(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    const tt_operand *x = &site->in[0], *y = &site->in[1], *dy = &site->in[2];
    const projection pr = project_reduce(site, &y->local.shape);
    double *n_equal = args->scratch; // as long as x: longer than y
    const int64_t n = tt_operand_count(x);
    for (int64_t k = 0; k < tt_operand_count(y); k++)
        n_equal[k] = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = tt__ref_offset(pr.big, pr.stride, i);
        n_equal[k] += tt_dtype_load(x->dtype, args->in[0], i) ==
                      tt_dtype_load(y->dtype, args->in[1], k);
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = tt__ref_offset(pr.big, pr.stride, i);
        const bool is_equal = tt_dtype_load(x->dtype, args->in[0], i) ==
                              tt_dtype_load(y->dtype, args->in[1], k);
        const double d = tt_dtype_load(dy->dtype, args->in[2], k);
        tt_dtype_store(site->out[0].dtype, args->out[0], i,
                       is_equal ? d / n_equal[k] : 0);
    }
    return TT_OK;
}

const tt_kernel_def tt__ref_reduce_kernels[] = {
    {TT_KERNEL(ref, broadcast), .run = run_broadcast},
    {TT_KERNEL(ref, sum_to), .accumulates = true, .prepare = prepare,
     .run = run_sum_to},
    {TT_KERNEL(ref, reduce), .prepare = prepare, .run = run_reduce},
    {TT_KERNEL(ref, reduce_max_grad), .prepare = prepare, .run = run_max_grad},
    {0},
};
