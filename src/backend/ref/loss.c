// loss - reference kernels of losses and of their parts for a vocabulary that is split
// over ranks. A label may be in another rank's slice: that rank adds its term.

#include "ops/nn/loss.h"

#include "backend/ref/ref.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

#include <math.h>

static double load(const tt_site *site, const tt_args *args, int i, int64_t at)
{
    return tt_dtype_load(site->in[i].dtype, args->in[i], at);
}

static void store(const tt_site *site, const tt_args *args, int i, int64_t at,
                  double value)
{
    tt_dtype_store(site->out[i].dtype, args->out[i], at, value);
}

// Rows of logits (input 0) with labels (input 1): a slice of the vocabulary.
typedef struct rows {
    const tt_site *site;
    const tt_args *args;
    int64_t n_rows, n, vocab; // local rows and columns; the whole vocabulary
} rows;

static rows rows_of(const tt_site *site, const tt_args *args)
{
    const tt_local *x = &site->in[0].local;
    const int last = x->shape.ndim - 1;
    const int64_t n = tt_shape_dim(&x->shape, last);
    return (rows){site, args, tt_shape_count(&x->shape) / n, n,
                  tt_position_extent(x, last)};
}

static double logit(const rows *r, int64_t k, int64_t i)
{
    return load(r->site, r->args, 0, k * r->n + i);
}

// The local column of row k's label, -1 if it is on another rank; and whether the row
// counts (its label is not the ignored one).
static tt_status label(const rows *r, int64_t k, int64_t *column_out,
                       bool *counts_out)
{
    const tt_cross_entropy_params *p = r->site->params;
    const tt_local *x = &r->site->in[0].local;
    const int64_t y = (int64_t)load(r->site, r->args, 1, k);
    *counts_out = y != p->ignore;
    *column_out = -1;
    if (!*counts_out)
        return TT_OK;
    if (y < 0 || y >= r->vocab)
        return tt_fail(TT_ERR_ARG, "%s: label %lld is not in 0..%lld",
                       r->site->origin, (long long)y, (long long)r->vocab - 1);
    *column_out = tt_position_local(x, x->shape.ndim - 1, y);
    return TT_OK;
}

static double row_max(const rows *r, int64_t k)
{
    double max = -HUGE_VAL;
    for (int64_t i = 0; i < r->n; i++)
        max = fmax(max, logit(r, k, i));
    return max;
}

static double row_exp_sum(const rows *r, int64_t k, double max)
{
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++)
        sum += exp(logit(r, k, i) - max);
    return sum;
}

// (1 - smoothing) x[label] + smoothing / vocab * sum(x), of this slice.
static double row_target(const rows *r, int64_t k, int64_t column)
{
    const tt_cross_entropy_params *p = r->site->params;
    double sum = 0;
    for (int64_t i = 0; p->smoothing != 0 && i < r->n; i++)
        sum += logit(r, k, i);
    return p->smoothing / (double)r->vocab * sum +
           (column < 0 ? 0 : (1 - p->smoothing) * logit(r, k, column));
}

tt_status tt__ref_cross_entropy(void *state, const tt_site *site,
                                const tt_args *args)
{
    (void)state;
    const rows r = rows_of(site, args);
    double sum = 0, count = 0;
    for (int64_t k = 0; k < r.n_rows; k++) {
        int64_t column;
        bool counts;
        TT_TRY(label(&r, k, &column, &counts));
        const double max = row_max(&r, k);
        const double lse = max + log(row_exp_sum(&r, k, max));
        store(site, args, 2, k, lse);
        if (counts) {
            sum += lse - row_target(&r, k, column);
            count += 1;
        }
    }
    store(site, args, 0, 0, sum);
    store(site, args, 1, 0, count);
    return TT_OK;
}

tt_status tt__ref_cross_entropy_grad(void *state, const tt_site *site,
                                     const tt_args *args)
{
    (void)state;
    const tt_cross_entropy_params *p = site->params;
    const rows r = rows_of(site, args);
    const double dsum = load(site, args, 3, 0);
    for (int64_t k = 0; k < r.n_rows; k++) {
        int64_t column;
        bool counts;
        TT_TRY(label(&r, k, &column, &counts));
        const double lse = load(site, args, 2, k);
        for (int64_t i = 0; i < r.n; i++) {
            const double hit = i == column ? 1 - p->smoothing : 0;
            const double d = exp(logit(&r, k, i) - lse) - hit -
                             p->smoothing / (double)r.vocab;
            store(site, args, 0, k * r.n + i, counts ? dsum * d : 0);
        }
    }
    return TT_OK;
}

static tt_status run_row_max(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    const rows r = rows_of(site, args);
    for (int64_t k = 0; k < r.n_rows; k++)
        store(site, args, 0, k, row_max(&r, k));
    return TT_OK;
}

static tt_status run_loss_terms(void *state, const tt_site *site,
                                const tt_args *args)
{
    (void)state;
    const rows r = rows_of(site, args);
    for (int64_t k = 0; k < r.n_rows; k++) {
        int64_t column;
        bool counts;
        TT_TRY(label(&r, k, &column, &counts));
        store(site, args, 0, k, row_exp_sum(&r, k, load(site, args, 2, k)));
        store(site, args, 1, k, row_target(&r, k, column));
    }
    return TT_OK;
}

static tt_status run_loss_join(void *state, const tt_site *site,
                               const tt_args *args)
{
    (void)state;
    const tt_loss_join_params *p = site->params;
    double sum = 0, count = 0;
    for (int64_t k = 0; k < tt_operand_count(&site->in[0]); k++) {
        const double lse = load(site, args, 0, k) + log(load(site, args, 1, k));
        store(site, args, 2, k, lse);
        if ((int64_t)load(site, args, 3, k) == p->ignore)
            continue;
        sum += lse - load(site, args, 2, k);
        count += 1;
    }
    store(site, args, 0, 0, sum);
    store(site, args, 1, 0, count);
    return TT_OK;
}

tt_status tt__ref_correct(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const rows r = rows_of(site, args);
    double count = 0;
    for (int64_t k = 0; k < r.n_rows; k++) {
        int64_t best = 0;
        for (int64_t i = 1; i < r.n; i++)
            if (logit(&r, k, i) > logit(&r, k, best))
                best = i;
        count += (double)best == load(site, args, 1, k) ? 1 : 0;
    }
    store(site, args, 0, 0, count);
    return TT_OK;
}

static tt_status run_correct_terms(void *state, const tt_site *site,
                                   const tt_args *args)
{
    (void)state;
    const rows r = rows_of(site, args);
    const tt_local *x = &site->in[0].local;
    for (int64_t k = 0; k < r.n_rows; k++) {
        const int64_t y = (int64_t)load(site, args, 1, k);
        const double max = load(site, args, 2, k);
        double mark = 0;
        for (int64_t i = 0; i < r.n; i++) {
            const int64_t at = tt_position_global(x, x->shape.ndim - 1, i);
            if (logit(&r, k, i) == max && at <= y)
                mark = fmax(mark, at < y ? 2 : 1);
        }
        store(site, args, 0, k, mark);
    }
    return TT_OK;
}

static tt_status run_correct_join(void *state, const tt_site *site,
                                  const tt_args *args)
{
    (void)state;
    double count = 0;
    for (int64_t k = 0; k < tt_operand_count(&site->in[0]); k++)
        count += load(site, args, 0, k) == 1 ? 1 : 0;
    store(site, args, 0, 0, count);
    return TT_OK;
}

// Weight of element i, from input `w` (absent: 1).
static double weight_of(const tt_site *site, const tt_args *args, int w,
                        int64_t i)
{
    if (!tt_site_has(site, w))
        return 1;
    const int64_t n = tt_operand_count(&site->in[0]);
    return load(site, args, w, i / (n / tt_operand_dim(&site->in[0], 0)));
}

static tt_status run_mse(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    double sum = 0, count = 0;
    for (int64_t i = 0; i < tt_operand_count(&site->in[0]); i++) {
        const double d = load(site, args, 0, i) - load(site, args, 1, i);
        const double weight = weight_of(site, args, 2, i);
        sum += weight * d * d;
        count += weight;
    }
    store(site, args, 0, 0, sum);
    store(site, args, 1, 0, count);
    return TT_OK;
}

static tt_status run_mse_grad(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    const double dsum = load(site, args, 2, 0);
    for (int64_t i = 0; i < tt_operand_count(&site->out[0]); i++)
        store(site, args, 0, i,
              2 * dsum * weight_of(site, args, 3, i) *
                  (load(site, args, 0, i) - load(site, args, 1, i)));
    return TT_OK;
}

const tt_kernel_def tt__ref_loss_kernels[] = {
    {TT_KERNEL(ref, correct), .run = tt__ref_correct},
    {TT_KERNEL(ref, correct_join), .run = run_correct_join},
    {TT_KERNEL(ref, correct_terms), .run = run_correct_terms},
    {TT_KERNEL(ref, cross_entropy), .run = tt__ref_cross_entropy},
    {TT_KERNEL(ref, cross_entropy_grad), .in_place = true,
     .run = tt__ref_cross_entropy_grad},
    {TT_KERNEL(ref, loss_join), .run = run_loss_join},
    {TT_KERNEL(ref, loss_terms), .run = run_loss_terms},
    {TT_KERNEL(ref, mse), .run = run_mse},
    {TT_KERNEL(ref, mse_grad), .run = run_mse_grad},
    {TT_KERNEL(ref, row_max), .run = run_row_max},
    {0},
};
