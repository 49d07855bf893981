// move - the operators that only move elements, with the vectorised copy. Forms of
// the library are converted elsewhere.

#include "backend/ref/move.h"

#include "backend/cpu/copy.h"
#include "backend/cpu/wrap.h"
#include "ops/ops.h"

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_is_plain(site) && tt__can_copy(site->out[0].dtype);
}

TT_KERNEL_RUN(run_reorder, tt__move_reorder(site, args, tt__copy_fast, NULL))
TT_KERNEL_RUN(run_transpose,
              tt__move_transpose(site, args, tt__copy_fast, NULL))
TT_KERNEL_RUN(run_split, tt__move_split(site, args, tt__copy_fast, NULL))
TT_KERNEL_RUN(run_join, tt__move_join(site, args, tt__copy_fast, NULL))
TT_KERNEL_RUN(run_slice, tt__move_slice(site, args, tt__copy_fast, NULL))
TT_KERNEL_RUN(run_slice_grad,
              tt__move_slice_grad(site, args, tt__copy_fast, NULL))
TT_KERNEL_RUN(run_concat, tt__move_concat(site, args, tt__copy_fast, NULL))
TT_KERNEL_RUN(run_stripe, tt__move_stripe(site, args, tt__copy_fast, NULL))
TT_KERNEL_RUN(run_weave, tt__move_weave(site, args, tt__copy_fast, NULL))

const tt_kernel_def tt__cpu_move_kernels[] = {
    {.name = "cpu.copy",
     .op = &tt_op_reorder,
     TT_STRIDED,
     .can = can,
     .run = run_reorder},
    {TT_KERNEL(cpu, reshape), TT_STRIDED, .can = can, .run = run_reorder},
    {TT_KERNEL(cpu, transpose), TT_STRIDED, .can = can, .run = run_transpose},
    {TT_KERNEL(cpu, split), TT_STRIDED, .can = can, .run = run_split},
    {TT_KERNEL(cpu, join), TT_STRIDED, .can = can, .run = run_join},
    {TT_KERNEL(cpu, slice), TT_STRIDED, .can = can, .run = run_slice},
    {TT_KERNEL(cpu, slice_grad), .strided_in = ~0u, .can = can,
     .run = run_slice_grad},
    {TT_KERNEL(cpu, concat), TT_STRIDED, .can = can, .run = run_concat},
    {TT_KERNEL(cpu, stripe), TT_STRIDED, .can = can, .run = run_stripe},
    {TT_KERNEL(cpu, weave), TT_STRIDED, .can = can, .run = run_weave},
    {0},
};
