// arith - reference kernels of add, mul and scale.

#include "ops/arith.h"

#include "backend/ref/elementwise.h"
#include "ops/ops.h"

static double add(const void *params, double a, double b)
{
    (void)params;
    return a + b;
}

static double mul(const void *params, double a, double b)
{
    (void)params;
    return a * b;
}

static double scale(const void *params, double x)
{
    const tt_scale_params *p = params;
    return x * p->by;
}

// b broadcasts to a.
static tt_status run_broadcast(const tt_site *site, const tt_args *args,
                               tt__binary_fn *fn)
{
    const tt_operand *a = &site->in[0], *b = &site->in[1];
    const tt_operand *y = &site->out[0];
    if (tt_operand_count(a) == tt_operand_count(b))
        return tt__ref_binary(site, args, fn);
    int map[TT_MAX_DIMS];
    int64_t stride[TT_MAX_DIMS];
    const tt_shape *shape = &a->local.shape;
    (void)tt_broadcast_map(&(tt_i64s){0}, &b->local.shape, shape, map);
    tt__ref_project(shape, &b->local.shape, map, stride);
    const int64_t n = tt_operand_count(y);
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = tt__ref_offset(shape, stride, i);
        tt_dtype_store(y->dtype, args->out[0], i,
                       fn(site->params, tt_dtype_load(a->dtype, args->in[0], i),
                          tt_dtype_load(b->dtype, args->in[1], k)));
    }
    return TT_OK;
}

TT_KERNEL_RUN(run_add, run_broadcast(site, args, add))
TT_KERNEL_RUN(run_mul, run_broadcast(site, args, mul))
TT_KERNEL_RUN(run_scale, tt__ref_unary(site, args, scale))

const tt_kernel_def tt__ref_arith_kernels[] = {
    {TT_KERNEL(ref, add), .in_place = true, .run = run_add},
    {TT_KERNEL(ref, mul), .in_place = true, .run = run_mul},
    {TT_KERNEL(ref, scale), .in_place = true, .run = run_scale},
    {0},
};
