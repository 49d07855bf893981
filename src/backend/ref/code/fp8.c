// fp8 - reference kernels of fp8_pack, matmul_fp8, largest and fp8_units. A byte is
// decoded through a table of all 256 values, and sums are doubles.

#include "ops/codec/fp8.h"

#include "backend/kernel.h"
#include "backend/ref/activation.h"
#include "ops/ops.h"

#include <math.h>

static double unit_at(const tt_site *site, const tt_args *args, int input,
                      int64_t i)
{
    return tt_dtype_load(site->in[input].dtype, args->in[input], i);
}

// Writes element i of the packed value twice: at i of rows, and at its place in the
// transpose, turned.
typedef struct packing {
    tt_dtype dtype;
    int64_t rows, cols;
    double unit, largest;
    void *straight, *turned;
} packing;

static packing begin(const tt_site *site, const tt_args *args, int first_out)
{
    const tt_fp8_pack_params *p = site->params;
    const tt_operand *x = &site->in[TT_Q_X];
    const int64_t cols = tt_operand_dim(x, x->local.shape.ndim - 1);
    return (packing){.dtype = site->out[first_out + TT_Q_ROWS].dtype,
                     .rows = tt_operand_count(x) / cols,
                     .cols = cols,
                     .unit = unit_at(site, args, TT_Q_UNITS, p->site),
                     .straight = args->out[first_out + TT_Q_ROWS],
                     .turned = args->out[first_out + TT_Q_TURNED]};
}

static void put(packing *p, int64_t i, double value)
{
    p->largest = fmax(p->largest, fabs(value));
    tt_dtype_store(p->dtype, p->straight, i, value / p->unit);
    tt_dtype_store(p->dtype, p->turned, i % p->cols * p->rows + i / p->cols,
                   value / p->unit);
}

static void end(const packing *p, const tt_operand *peak, void *to)
{
    tt_dtype_store(peak->dtype, to, 0, p->largest / tt_dtype_largest(p->dtype));
}

static tt_status run_fp8_pack(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    const tt_fp8_pack_params *p = site->params;
    packing k = begin(site, args, 0);
    for (int64_t i = 0; i < k.rows * k.cols; i++) {
        const double x = unit_at(site, args, TT_Q_X, i);
        put(&k, i, p->is_gelu ? tt__activate(TT_ACT_GELU_TANH, x) : x);
    }
    end(&k, &site->out[TT_Q_PEAK], args->out[TT_Q_PEAK]);
    return TT_OK;
}

static double gelu_slope(double z)
{
    const double a = sqrt(2 / 3.14159265358979323846), b = 0.044715;
    const double t = tanh(a * (z + b * z * z * z));
    return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * a * (1 + 3 * b * z * z);
}

static tt_status run_fp8_pack_grad(void *state, const tt_site *site,
                                   const tt_args *args)
{
    (void)state;
    const tt_operand *sums = &site->out[TT_QG_SUMS];
    packing k = begin(site, args, TT_QG_ROWS);
    for (int64_t c = 0; c < k.cols; c++) {
        double sum = 0;
        for (int64_t i = c; i < k.rows * k.cols; i += k.cols) {
            double x = unit_at(site, args, TT_QG_X, i);
            if (tt_site_has(site, TT_QG_Z))
                x *= gelu_slope(unit_at(site, args, TT_QG_Z, i));
            put(&k, i, x);
            sum += x;
        }
        if (args->accumulate)
            sum += tt_dtype_load(sums->dtype, args->out[TT_QG_SUMS], c);
        tt_dtype_store(sums->dtype, args->out[TT_QG_SUMS], c, sum);
    }
    end(&k, &site->out[TT_QG_PEAK], args->out[TT_QG_PEAK]);
    return TT_OK;
}

// The values of all 256 codes.
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

// A skipped step leaves history and units unchanged: the old ones are the outputs.
static void update_site(const tt_site *site, const tt_args *args, int64_t s,
                        bool is_skipped)
{
    const tt_operand *history = &site->in[TT_U8S_HISTORY];
    const tt_dtype dtype = history->dtype;
    const int64_t steps = tt_operand_dim(history, 0);
    const int64_t sites = tt_operand_dim(history, 1);
    const int64_t apart = tt_operand_count(&site->in[TT_U8S_UNITS]) / sites;
    double unit = unit_at(site, args, TT_U8S_UNITS, s * apart);
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
    for (int64_t i = s * apart; i < (s + 1) * apart; i++)
        tt_dtype_store(site->out[1].dtype, args->out[1], i,
                       i == s * apart ? unit
                                      : unit_at(site, args, TT_U8S_UNITS, i));
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

const tt_kernel_def tt__ref_fp8_kernels[] = {
    {TT_KERNEL(ref, largest), .accumulates = true, .run = run_largest},
    {TT_KERNEL(ref, fp8_units), .run = run_units},
    {TT_KERNEL(ref, fp8_pack), .run = run_fp8_pack},
    {TT_KERNEL(ref, fp8_pack_grad), .accumulates = true,
     .run = run_fp8_pack_grad},
    {TT_KERNEL(ref, matmul_fp8), .accumulates = true, .run = run_matmul},
    {0},
};
