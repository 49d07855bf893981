// relabel, match - reference kernels: a copy, where they are not views.

#include "backend/kernel.h"
#include "backend/ref/ref.h"
#include "ops/ops.h"

#include <string.h>

static tt_kernel_run_fn run;

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_operand *y = &site->out[0];
    memcpy(args->out[0], args->in[0],
           (size_t)(tt_operand_count(y) * tt_dtype_bytes(y->dtype)));
    return TT_OK;
}

const tt_kernel_def tt_kernel_ref_relabel = {
    .name = "ref.relabel",
    .op = &tt_op_relabel,
    .run = run,
};

const tt_kernel_def tt_kernel_ref_match = {
    .name = "ref.match",
    .op = &tt_op_match,
    .run = run,
};
