// offload - copies between memories, where there is only one.

#include "backend/ref/move.h"
#include "ops/ops.h"

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    return tt__move_reorder(site, args, tt__copy, NULL);
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
