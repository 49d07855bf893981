// points - reference kernels of fetch, agree, offer and tally.

#include "backend/kernel.h"
#include "ops/ops.h"

#include <string.h>

// Usually the plan gives an alias the memory of its input, so input and output may be
// the same address.
static tt_status run_alias(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    const tt_operand *x = &site->in[0];
    const int64_t bytes = tt_operand_count(x) * tt_dtype_bytes(x->dtype);
    if (args->out[0] != args->in[0])
        memcpy(args->out[0], args->in[0], (size_t)bytes);
    return TT_OK;
}

static void sum(const tt_site *site, const tt_args *args, int first)
{
    const tt_operand *y = &site->out[0];
    const int64_t n = tt_operand_count(y);
    for (int64_t i = 0; i < n; i++) {
        double s =
            args->accumulate ? tt_dtype_load(y->dtype, args->out[0], i) : 0;
        for (int k = first; k < site->n_in; k++)
            s += tt_dtype_load(site->in[k].dtype, args->in[k], i);
        tt_dtype_store(y->dtype, args->out[0], i, s);
    }
}

static tt_status run_offer(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    sum(site, args, 1);
    return TT_OK;
}

static tt_status run_tally(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    sum(site, args, 0);
    return TT_OK;
}

const tt_kernel_def tt__ref_points_kernels[] = {
    {TT_KERNEL(ref, fetch), .in_place = true, .run = run_alias},
    {TT_KERNEL(ref, agree), .in_place = true, .run = run_alias},
    {TT_KERNEL(ref, offer), .accumulates = true, .run = run_offer},
    {TT_KERNEL(ref, tally), .accumulates = true, .run = run_tally},
    {0},
};
