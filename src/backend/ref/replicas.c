// own, stack, replica_seed, replica_number - reference kernels: copies, where they are not views.

#include "ops/comm/replicas.h"

#include "backend/kernel.h"
#include "backend/ref/ref.h"
#include "ops/ops.h"

#include <string.h>

static tt_status run_own(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_operand *y = &site->out[0];
    memcpy(args->out[0], args->in[0],
           (size_t)(tt_operand_count(y) * tt_dtype_bytes(y->dtype)));
    return TT_OK;
}

// As often as this rank has replicas.
static tt_status run_stack(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    const tt_operand *x = &site->in[0];
    const int64_t bytes = tt_operand_count(x) * tt_dtype_bytes(x->dtype);
    const int64_t n = tt_operand_count(&site->out[0]) / tt_operand_count(x);
    for (int64_t r = 0; r < n; r++)
        memcpy((char *)args->out[0] + r * bytes, args->in[0], (size_t)bytes);
    return TT_OK;
}

static tt_status run_seed(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_replica_seed_params *p = site->params;
    const int64_t seed = *(const int64_t *)args->in[0];
    const tt_local *local = &site->out[0].local;
    int64_t *out = args->out[0];
    for (int64_t i = 0; i < tt_operand_count(&site->out[0]); i++)
        out[i] = tt_replica_seed_of(
            seed, p->salt, p->replicas > 0 ? tt_local_at(local, 0, i) : -1);
    return TT_OK;
}

static tt_status run_number(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    const tt_replica_number_params *p = site->params;
    const tt_operand *y = &site->out[0];
    for (int64_t i = 0; i < tt_operand_count(y); i++)
        tt_dtype_store(
            y->dtype, args->out[0], i,
            tt_replica_number_at(p->values, tt_local_at(&y->local, 0, i)));
    return TT_OK;
}

const tt_kernel_def tt__ref_replicas_kernels[] = {
    {TT_KERNEL(ref, own), .run = run_own},
    {TT_KERNEL(ref, stack), .run = run_stack},
    {TT_KERNEL(ref, replica_seed), .run = run_seed},
    {TT_KERNEL(ref, replica_number), .run = run_number},
    {0},
};
