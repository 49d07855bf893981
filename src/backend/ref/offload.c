// offload - copies between memories, where there is only one.

#include "backend/ref/move.h"
#include "ops/ops.h"

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    return tt__move_reorder(site, args, tt__copy, NULL);
}

const tt_kernel_def tt__ref_offload_kernels[] = {
    {TT_KERNEL(ref, offload), .run = run},
    {TT_KERNEL(ref, reload), .run = run},
    {0},
};
