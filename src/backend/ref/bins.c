// bins - reference kernels of square_bins, bins_total and bins_value.

#include "ops/bins.h"

#include "backend/kernel.h"
#include "ops/ops.h"

#include <string.h>

static tt_status run_squares(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    int64_t *bins = args->out[0];
    const int64_t n = tt_operand_count(&site->in[0]);
    memset(bins, 0, sizeof(int64_t) * TT_BINS);
    for (int64_t i = 0; i < n; i++) {
        const double x = tt_dtype_load(site->in[0].dtype, args->in[0], i);
        tt_bins_add(bins, x * x);
    }
    return TT_OK;
}

static tt_status run_total(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    int64_t bins[TT_BINS] = {0};
    for (int i = 0; i < site->n_in; i++)
        for (int b = 0; b < TT_BINS; b++)
            bins[b] += ((const int64_t *)args->in[i])[b];
    memcpy(args->out[0], bins, sizeof bins);
    return TT_OK;
}

static tt_status run_value(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    tt_dtype_store(site->out[0].dtype, args->out[0], 0,
                   tt_bins_sum(args->in[0]));
    return TT_OK;
}

const tt_kernel_def tt__ref_bins_kernels[] = {
    {TT_KERNEL(ref, square_bins), .run = run_squares},
    {TT_KERNEL(ref, bins_total), .run = run_total},
    {TT_KERNEL(ref, bins_value), .run = run_value},
    {0},
};
