// squares - sum_squares, mse, mse_grad. Sums are made in double, in the order of
// inputs and of rows.

#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/nn/loss.h"
#include "ops/ops.h"

// ---- sum_squares ---------------------------------------------------------

// A library layout is a vector too: padding is zero and adds nothing.
static bool can_sum(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    for (int i = 0; i < site->n_in; i++)
        if (!tt__is_simd(site->in[i].dtype))
            return false;
    return true;
}

static tt_status prepare_sum(tt_backend *backend, tt_site *site,
                             tt_prepared *prepared_out)
{
    int64_t *count = tt_alloc(site->n_in * (int64_t)sizeof(*count));
    if (count == NULL)
        return tt_fail(TT_ERR_NOMEM, "sum_squares: no memory for a kernel");
    for (int i = 0; i < site->n_in; i++)
        count[i] = tt_target_bytes(&backend->target, &site->in[i]) /
                   tt_dtype_bytes(site->in[i].dtype);
    prepared_out->state = count;
    return TT_OK;
}

static tt_status run_sum(void *state, const tt_site *site, const tt_args *args)
{
    const int64_t *count = state;
    double sum = 0;
    for (int i = 0; i < site->n_in; i++)
        sum += tt_simd_get()->reduce->sum_squares(
            tt__simd_type_of(site->in[i].dtype), args->in[i], count[i]);
    *(float *)args->out[0] = (float)sum;
    return TT_OK;
}

// ---- mse: a row is an entry of dim 0 -------------------------------------

static tt_simd_squares_args describe(const tt_site *site, const tt_args *args)
{
    const tt_operand *x = &site->in[0];
    const int64_t rows = x->local.shape.ndim > 0 ? tt_operand_dim(x, 0) : 1;
    return (tt_simd_squares_args){
        .type = tt__simd_type_of(x->dtype),
        .rows = rows,
        .cols = tt_operand_count(x) / rows,
        .x = args->in[0],
        .target = args->in[1],
    };
}

static bool can_mse(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ttx", "f");
}

static bool can_mse_grad(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ttfx", "t");
}

static tt_status prepare_mse(tt_backend *backend, tt_site *site,
                             tt_prepared *prepared_out)
{
    (void)backend;
    const int64_t rows =
        site->in[0].local.shape.ndim > 0 ? tt_operand_dim(&site->in[0], 0) : 1;
    prepared_out->scratch_bytes =
        rows * (int64_t)(sizeof(double) + sizeof(float));
    return TT_OK;
}

// Weights as floats, in scratch memory after the sums.
static const float *weights(const tt_site *site, const tt_args *args, int i,
                            int64_t rows)
{
    if (!tt_site_has(site, i))
        return NULL;
    return tt__as_floats(site->in[i].dtype, args->in[i], rows,
                         (float *)(void *)((double *)args->scratch + rows));
}

static tt_status run_mse(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    tt_simd_squares_args a = describe(site, args);
    a.weight = weights(site, args, 2, a.rows);
    a.sums = args->scratch;
    tt_simd_get()->score->squares(&a);
    double sum = 0, count = 0;
    for (int64_t r = 0; r < a.rows; r++) {
        sum += a.sums[r];
        count += (double)a.cols * (a.weight == NULL ? 1 : (double)a.weight[r]);
    }
    *(float *)args->out[0] = (float)sum;
    *(float *)args->out[1] = (float)count;
    return TT_OK;
}

static tt_status run_mse_grad(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    tt_simd_squares_args a = describe(site, args);
    a.weight = weights(site, args, 3, a.rows);
    a.scale = (float)tt__scalar_of(site, args, 2);
    a.d_x = args->out[0];
    tt_simd_get()->score->squares_grad(&a);
    return TT_OK;
}

const tt_kernel_def tt__cpu_squares_kernels[] = {
    {TT_KERNEL(cpu, mse), .can = can_mse, .prepare = prepare_mse,
     .run = run_mse},
    {TT_KERNEL(cpu, mse_grad), .in_place = true, .can = can_mse_grad,
     .prepare = prepare_mse, .run = run_mse_grad},
    {TT_KERNEL(cpu, sum_squares), .can = can_sum, .prepare = prepare_sum,
     .run = run_sum},
    {0},
};
