// exchange_points - offer and tally, which add into persistent memory; constants and
// counts.

#include "backend/cuda/cuda.h"
#include "ops/ops.h"
#include "ops/shape/move.h"

static int first_term(const tt_site *site)
{
    return site->op == &tt_op_offer ? 1 : 0; // input 0 is the weight
}

static bool can_sum(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    const int first = first_term(site);
    for (int i = first; i < site->n_in; i++)
        if (site->in[i].dtype != site->in[first].dtype)
            return false;
    return site->n_in - first <= TT_CUDA_SUM && site->n_in > first &&
           (site->out[0].dtype == TT_F32 ||
            site->out[0].dtype == site->in[first].dtype) &&
           tt__site_has_types(site, "y", "y");
}

static tt_status run_sum(void *state, const tt_site *site, const tt_args *args)
{
    const int first = first_term(site);
    tt_cuda_sum_args a = {.n_in = site->n_in - first,
                          .n = tt_operand_count(&site->out[0]),
                          .in_type = site->in[first].dtype,
                          .y_type = site->out[0].dtype,
                          .accumulate = args->accumulate,
                          .y = args->out[0]};
    for (int i = 0; i < a.n_in; i++)
        a.in[i] = args->in[first + i];
    return TT__CUDA(state, sum, &a);
}

static tt_status run_fill(void *state, const tt_site *site, const tt_args *args)
{
    const tt_fill_params *p = site->params;
    const tt_cuda_fill_args a = {.type = site->out[0].dtype,
                                 .n = tt_operand_count(&site->out[0]),
                                 .value = p->value,
                                 .y = args->out[0]};
    return TT__CUDA(state, fill_value, &a);
}

const tt_kernel_def tt__cuda_exchange_points_kernels[] = {
    {TT__CUDA_KERNEL(offer), .accumulates = true, .can = can_sum,
     .run = run_sum},
    {TT__CUDA_KERNEL(tally), .accumulates = true, .can = can_sum,
     .run = run_sum},
    {TT__CUDA_KERNEL(fill), .run = run_fill},
    {0},
};
