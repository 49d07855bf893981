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

const tt_kernel_def tt_kernel_ref_cast = {
    .name = "ref.cast",
    .op = &tt_op_cast,
    .run = run,
};
