// offload - copies between memories, where there is only one.

#include "backend/kernel.h"
#include "ops/ops.h"

#include <string.h>

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_operand *x = &site->in[0];
    memcpy(args->out[0], args->in[0],
           (size_t)(tt_operand_count(x) * tt_dtype_bytes(x->dtype)));
    return TT_OK;
}

const tt_kernel_def tt_kernel_ref_offload = {
    .name = "ref.offload",
    .op = &tt_op_offload,
    .run = run,
};

const tt_kernel_def tt_kernel_ref_reload = {
    .name = "ref.reload",
    .op = &tt_op_reload,
    .run = run,
};
