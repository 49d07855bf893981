// cast - reference kernel.

#include "backend/ref/elementwise.h"
#include "ops/ops.h"

static double identity(const void *params, double x)
{
    (void)params;
    return x;
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    return tt__ref_unary(site, args, identity);
}

const tt_kernel_def tt__ref_cast_kernels[] = {
    {TT_KERNEL(ref, cast), .run = run},
    {0},
};
