// cast - reference kernel.

#include "backend/kernel.h"
#include "backend/ref/ref.h"
#include "ops/ops.h"

static tt_kernel_run_fn run;

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_operand *x = &site->in[0], *y = &site->out[0];
    const int64_t n = tt_operand_count(y);
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(y->dtype, args->out[0], i,
                       tt_dtype_load(x->dtype, args->in[0], i));
    return TT_OK;
}

const tt_kernel_def tt_kernel_ref_cast = {
    .name = "ref.cast",
    .op = &tt_op_cast,
    .run = run,
};
