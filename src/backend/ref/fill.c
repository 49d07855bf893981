// fill - reference kernel.

#include "backend/kernel.h"
#include "ops/ops.h"
#include "ops/shape/move.h"

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_fill_params *p = site->params;
    const tt_operand *y = &site->out[0];
    const int64_t n = tt_operand_count(y);
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(y->dtype, args->out[0], i, p->value);
    return TT_OK;
}

const tt_kernel_def tt__ref_fill_kernels[] = {
    {TT_KERNEL(ref, fill), .run = run},
    {0},
};
