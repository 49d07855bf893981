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

static tt_status run_reorder(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    return tt__move_reorder(site, args, tt__copy_fast, NULL);
}

static tt_status run_transpose(void *state, const tt_site *site,
                               const tt_args *args)
{
    (void)state;
    return tt__move_transpose(site, args, tt__copy_fast, NULL);
}

static tt_status run_split(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    return tt__move_split(site, args, tt__copy_fast, NULL);
}

static tt_status run_join(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    return tt__move_join(site, args, tt__copy_fast, NULL);
}

static tt_status run_slice(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    return tt__move_slice(site, args, tt__copy_fast, NULL);
}

static tt_status run_slice_grad(void *state, const tt_site *site,
                                const tt_args *args)
{
    (void)state;
    return tt__move_slice_grad(site, args, tt__copy_fast, NULL);
}

static tt_status run_concat(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    return tt__move_concat(site, args, tt__copy_fast, NULL);
}

static tt_status run_stripe(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    return tt__move_stripe(site, args, tt__copy_fast, NULL);
}

static tt_status run_weave(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    return tt__move_weave(site, args, tt__copy_fast, NULL);
}

const tt_kernel_def tt_kernel_cpu_copy = {
    .name = "cpu.copy",
    .op = &tt_op_reorder,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .can = can,
    .run = run_reorder,
};

const tt_kernel_def tt_kernel_cpu_reshape = {
    .name = "cpu.reshape",
    .op = &tt_op_reshape,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .can = can,
    .run = run_reorder,
};

const tt_kernel_def tt_kernel_cpu_transpose = {
    .name = "cpu.transpose",
    .op = &tt_op_transpose,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .can = can,
    .run = run_transpose,
};

const tt_kernel_def tt_kernel_cpu_split = {
    .name = "cpu.split",
    .op = &tt_op_split,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .can = can,
    .run = run_split,
};

const tt_kernel_def tt_kernel_cpu_join = {
    .name = "cpu.join",
    .op = &tt_op_join,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .can = can,
    .run = run_join,
};

const tt_kernel_def tt_kernel_cpu_slice = {
    .name = "cpu.slice",
    .op = &tt_op_slice,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .can = can,
    .run = run_slice,
};

const tt_kernel_def tt_kernel_cpu_slice_grad = {
    .name = "cpu.slice_grad",
    .op = &tt_op_slice_grad,
    .strided_in = ~0u,
    .can = can,
    .run = run_slice_grad,
};

const tt_kernel_def tt_kernel_cpu_concat = {
    .name = "cpu.concat",
    .op = &tt_op_concat,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .can = can,
    .run = run_concat,
};

const tt_kernel_def tt_kernel_cpu_stripe = {
    .name = "cpu.stripe",
    .op = &tt_op_stripe,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .can = can,
    .run = run_stripe,
};

const tt_kernel_def tt_kernel_cpu_weave = {
    .name = "cpu.weave",
    .op = &tt_op_weave,
    .strided_in = ~0u,
    .strided_out = ~0u,
    .can = can,
    .run = run_weave,
};
