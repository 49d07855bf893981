// fp8 - reference kernels of fp8_pack, matmul_fp8, largest and fp8_units.

#include "ops/fp8.h"

#include "backend/kernel.h"
#include "backend/ref/activation.h"
#include "ops/ops.h"

#include <math.h>

static double unit_at(const tt_site *site, const tt_args *args, int input,
                      int64_t i)
{
    return tt_dtype_load(site->in[input].dtype, args->in[input], i);
}

static tt_status run_quantise(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    const tt_quantise_params *p = site->params;
    const tt_operand *x = &site->in[TT_Q_X];
    const tt_dtype dtype = site->out[TT_Q_ROWS].dtype;
    const int64_t cols = tt_operand_dim(x, x->local.shape.ndim - 1);
    const int64_t n = tt_operand_count(x), rows = n / cols;
    const double unit = unit_at(site, args, TT_Q_UNITS, p->site);
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double value = tt_dtype_load(x->dtype, args->in[TT_Q_X], i);
        value = p->is_gelu ? tt__activate(TT_ACT_GELU_TANH, value) : value;
        largest = fmax(largest, fabs(value));
        tt_dtype_store(dtype, args->out[TT_Q_ROWS], i, value / unit);
        tt_dtype_store(dtype, args->out[TT_Q_TURNED],
                       i % cols * rows + i / cols, value / unit);
    }
    tt_dtype_store(site->out[TT_Q_PEAK].dtype, args->out[TT_Q_PEAK], 0,
                   largest / tt_dtype_largest(dtype));
    return TT_OK;
}

// What every byte stands for.
static void list_values(tt_dtype dtype, double *value_out)
{
    for (int i = 0; i < 256; i++) {
        const uint8_t byte = (uint8_t)i;
        value_out[i] = tt_dtype_load(dtype, &byte, 0);
    }
}

static tt_status run_matmul(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    double left[256], right[256];
    const tt_matmul_fp8_params *p = site->params;
    const tt_operand *a = &site->in[TT_M8_A], *b = &site->in[TT_M8_B];
    const int64_t n = tt_operand_dim(b, 0), k = tt_operand_dim(b, 1);
    const int64_t m = tt_operand_count(a) / k;
    const double unit = unit_at(site, args, TT_M8_UNITS, p->a_site) *
                        unit_at(site, args, TT_M8_UNITS, p->b_site);
    list_values(a->dtype, left);
    list_values(b->dtype, right);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            const uint8_t *x = (const uint8_t *)args->in[TT_M8_A] + i * k;
            const uint8_t *y = (const uint8_t *)args->in[TT_M8_B] + j * k;
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += left[x[l]] * right[y[l]];
            sum *= unit;
            if (tt_site_has(site, TT_M8_BIAS))
                sum += unit_at(site, args, TT_M8_BIAS, j);
            if (tt_site_has(site, TT_M8_PLUS))
                sum += unit_at(site, args, TT_M8_PLUS, i * n + j);
            if (args->accumulate)
                sum +=
                    tt_dtype_load(site->out[0].dtype, args->out[0], i * n + j);
            tt_dtype_store(site->out[0].dtype, args->out[0], i * n + j, sum);
        }
    return TT_OK;
}

static tt_status run_largest(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    const tt_operand *y = &site->out[0];
    for (int64_t i = 0; i < tt_operand_count(y); i++) {
        double x = tt_dtype_load(site->in[0].dtype, args->in[0], i);
        if (args->accumulate)
            x = fmax(x, tt_dtype_load(y->dtype, args->out[0], i));
        tt_dtype_store(y->dtype, args->out[0], i, x);
    }
    return TT_OK;
}

static double power_above(double x)
{
    int exponent = 0;
    const double m = frexp(x, &exponent); // in [0.5, 1)
    return ldexp(1, m == 0.5 ? exponent - 1 : exponent);
}

// Where a step is skipped the states stay: they are the outputs.
static void update_site(const tt_site *site, const tt_args *args, int64_t s,
                        bool is_skipped)
{
    const tt_operand *history = &site->in[TT_U8S_HISTORY];
    const tt_dtype dtype = history->dtype;
    const int64_t steps = tt_operand_dim(history, 0);
    const int64_t sites = tt_operand_dim(history, 1);
    double unit = unit_at(site, args, TT_U8S_UNITS, s);
    double newest = unit_at(site, args, TT_U8S_PEAKS, s), most = 0;
    newest = isfinite(newest) ? newest : 0;
    for (int64_t i = 0; i < steps; i++) {
        const double old = unit_at(site, args, TT_U8S_HISTORY, i * sites + s);
        const double now = is_skipped ? old : newest;
        tt_dtype_store(dtype, args->out[0], i * sites + s, now);
        most = fmax(most, now);
        newest = old;
    }
    if (!is_skipped && most > 0)
        unit = power_above(most);
    tt_dtype_store(site->out[1].dtype, args->out[1], s, unit);
}

static tt_status run_units(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    const bool is_skipped = unit_at(site, args, TT_U8S_SKIP, 0) != 0;
    const int64_t sites = tt_operand_dim(&site->in[TT_U8S_HISTORY], 1);
    for (int64_t s = 0; s < sites; s++)
        update_site(site, args, s, is_skipped);
    return TT_OK;
}

const tt_kernel_def tt_kernel_ref_fp8_pack = {
    .name = "ref.fp8_pack",
    .op = &tt_op_fp8_pack,
    .run = run_quantise,
};

const tt_kernel_def tt_kernel_ref_matmul_fp8 = {
    .name = "ref.matmul_fp8",
    .op = &tt_op_matmul_fp8,
    .accumulates = true,
    .run = run_matmul,
};

const tt_kernel_def tt_kernel_ref_largest = {
    .name = "ref.largest",
    .op = &tt_op_largest,
    .accumulates = true,
    .run = run_largest,
};

const tt_kernel_def tt_kernel_ref_fp8_units = {
    .name = "ref.fp8_units",
    .op = &tt_op_fp8_units,
    .run = run_units,
};
