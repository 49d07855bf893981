// project - reductions over dims that are no neighbours, or of other types than the
// fast kernels take, and the gradient of the largest entry. The kernels:
// dev/elements/project.cu.

#include "backend/cuda/cuda.h"
#include "ops/arith.h"
#include "ops/ops.h"

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_is_plain(site) && tt_dtype_is_float(site->in[0].dtype);
}

static bool is_reduced(const tt_site *site, const int *map, int d)
{
    if (site->op != &tt_op_sum_to)
        return tt_reduce_has(site->params, d);
    return map[d] < 0 || tt_shape_dim(&site->out[0].local.shape, map[d]) == 1;
}

static double length_of(const tt_site *site)
{
    const tt_local *x = &site->in[0].local;
    double n = 1;
    for (int f = 0; f < x->shape.n_factors; f++)
        if (tt_reduce_has(site->params, tt_shape_dim_of(&x->shape, f)))
            n *= (double)x->global[f];
    return n;
}

static tt_cuda_project_args describe(const tt_site *site)
{
    const tt_shape *x = &site->in[0].local.shape;
    tt_cuda_project_args a = {.by = 1};
    int64_t stride[TT_MAX_DIMS];
    int map[TT_MAX_DIMS] = {0};
    tt_shape_strides(x, stride);
    if (site->op == &tt_op_sum_to) {
        const tt_broadcast_params *p = site->params;
        (void)tt_broadcast_map(&p->dims, &site->out[0].local.shape, x, map);
    } else if (site->op == &tt_op_reduce) {
        const tt_reduce_params *p = site->params;
        a.is_max = p->op == TT_REDUCE_MAX;
        a.by = p->op == TT_REDUCE_MEAN ? 1 / length_of(site) : 1;
    }
    for (int d = 0; d < x->ndim; d++) {
        if (is_reduced(site, map, d)) {
            a.reduced[a.n_reduced] = tt_shape_dim(x, d);
            a.reduced_stride[a.n_reduced++] = stride[d];
        } else {
            a.kept[a.n_kept] = tt_shape_dim(x, d);
            a.kept_stride[a.n_kept++] = stride[d];
        }
    }
    return a;
}

static tt_cuda_any input(const tt_site *site, const tt_args *args, int i)
{
    return (tt_cuda_any){site->in[i].dtype, (void *)(uintptr_t)args->in[i]};
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    tt_cuda_project_args a = describe(site);
    a.accumulate = args->accumulate;
    a.x = input(site, args, 0);
    a.y = (tt_cuda_any){site->out[0].dtype, args->out[0]};
    return TT__CUDA(state, reduce_any, &a);
}

static tt_status run_max_grad(void *state, const tt_site *site,
                              const tt_args *args)
{
    tt_cuda_project_args a = describe(site);
    a.x = input(site, args, 0);
    a.y = input(site, args, 1);
    a.dy = input(site, args, 2);
    a.dx = (tt_cuda_any){site->out[0].dtype, args->out[0]};
    return TT__CUDA(state, max_grad, &a);
}

const tt_kernel_def tt__cuda_project_kernels[] = {
    {.name = "cuda.sum_to_any",
     .op = &tt_op_sum_to,
     .accumulates = true,
     .can = can,
     .prepare = tt__cuda_prepare,
     .run = run},
    {.name = "cuda.reduce_any",
     .op = &tt_op_reduce,
     .can = can,
     .prepare = tt__cuda_prepare,
     .run = run},
    {TT__CUDA_KERNEL(reduce_max_grad), .can = can, .run = run_max_grad},
    {0},
};
