// pooling and its gradients - images with their channels last. See dev/conv/pool.cu for
// what bounds them.

#include "ops/nn/pool.h"

#include "backend/cuda/layout.h"
#include "ops/ops.h"

typedef struct state {
    const tt__cuda_device *device;
    tt_cuda_pool_args args; // without addresses
} state;

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    const tt_dtype type = site->in[0].dtype;
    return (type == TT_F32 || tt__is_low(type)) && site->out[0].dtype == type;
}

static bool is_grad(const tt_op_def *op)
{
    return op == &tt_op_max_pool_grad || op == &tt_op_avg_pool_grad ||
           op == &tt_op_adaptive_avg_pool_grad;
}

static bool is_adaptive(const tt_op_def *op)
{
    return op == &tt_op_adaptive_avg_pool ||
           op == &tt_op_adaptive_avg_pool_grad;
}

// Extents, and where the local input lies in the whole; missing dims stand first.
static void adaptive_slides(const tt_local *x, const tt_local *y,
                            tt_cuda_slide slide[TT_CUDA_SPACE])
{
    const int n = x->shape.ndim - 2;
    for (int i = 0; i < TT_CUDA_SPACE; i++) {
        const int d = i - (TT_CUDA_SPACE - n) + 2;
        slide[i] = (tt_cuda_slide){.in = 1, .out = 1, .whole_in = 1};
        if (d < 2)
            continue;
        const int f = x->shape.first[d];
        slide[i] = (tt_cuda_slide){.in = tt_shape_dim(&x->shape, d),
                                   .out = tt_shape_dim(&y->shape, d),
                                   .origin = x->origin[f],
                                   .whole_in = x->global[f]};
    }
}

static bool has_where(const tt_op_def *op)
{
    return op == &tt_op_max_pool || op == &tt_op_max_pool_grad;
}

// Where the largest entries were: output 1, or input 1 of the gradient.
static tt_operand *where_of(tt_site *site)
{
    return site->op == &tt_op_max_pool ? &site->out[1] : &site->in[1];
}

static tt_cuda_pool_args describe(tt_site *site)
{
    const bool back = is_grad(site->op);
    const tt_local *x = back ? &site->out[0].local : &site->in[0].local;
    const tt_local *y = back ? &site->in[0].local : &site->out[0].local;
    const tt_dtype where = has_where(site->op) ? where_of(site)->dtype : TT_U8;
    tt_cuda_pool_args a = {.type = site->in[0].dtype,
                           .where_type = where,
                           .n = tt_operand_dim(&site->in[0], 0),
                           .channels = tt_operand_dim(&site->in[0], 1)};
    if (is_adaptive(site->op)) {
        adaptive_slides(x, y, a.slide);
        return a;
    }
    const tt_pool_params *p = site->params;
    tt_slide slide[TT_MAX_SPATIAL];
    tt_pool_slides(p, x, y, slide);
    tt__cuda_slides(slide, a.slide);
    a.count_pad = p->count_pad;
    return a;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    TT_TRY(tt__cuda_channels_last(backend, &site->in[0]));
    TT_TRY(tt__cuda_channels_last(backend, &site->out[0]));
    if (has_where(site->op))
        TT_TRY(tt__cuda_channels_last(backend, where_of(site)));
    TT_TRY(tt__cuda_state(backend, sizeof(state), prepared_out));
    ((state *)prepared_out->state)->args = describe(site);
    return TT_OK;
}

static tt_cuda_pool_args args_of(void *kernel_state, const tt_site *site,
                                 const tt_args *args)
{
    tt_cuda_pool_args a = ((state *)kernel_state)->args;
    a.x = args->in[0];
    a.y = args->out[0];
    if (site->op == &tt_op_max_pool)
        a.where = args->out[1];
    if (site->op == &tt_op_max_pool_grad)
        a.where = (void *)(uintptr_t)args->in[1];
    return a;
}

static tt_status run_max(void *kernel_state, const tt_site *site,
                         const tt_args *args)
{
    const tt_cuda_pool_args a = args_of(kernel_state, site, args);
    return is_grad(site->op) ? TT__CUDA(kernel_state, max_pool_grad, &a)
                             : TT__CUDA(kernel_state, max_pool, &a);
}

static tt_status run_avg(void *kernel_state, const tt_site *site,
                         const tt_args *args)
{
    const tt_cuda_pool_args a = args_of(kernel_state, site, args);
    return is_grad(site->op) ? TT__CUDA(kernel_state, avg_pool_grad, &a)
                             : TT__CUDA(kernel_state, avg_pool, &a);
}

static tt_status run_adaptive(void *kernel_state, const tt_site *site,
                              const tt_args *args)
{
    const tt_cuda_pool_args a = args_of(kernel_state, site, args);
    return is_grad(site->op) ? TT__CUDA(kernel_state, adaptive_pool_grad, &a)
                             : TT__CUDA(kernel_state, adaptive_pool, &a);
}

const tt_kernel_def tt__cuda_pool_kernels[] = {
    {TT_KERNEL(cuda, max_pool), .can = can, .prepare = prepare, .run = run_max},
    {TT_KERNEL(cuda, max_pool_grad), .can = can, .prepare = prepare,
     .run = run_max},
    {TT_KERNEL(cuda, avg_pool), .can = can, .prepare = prepare, .run = run_avg},
    {TT_KERNEL(cuda, avg_pool_grad), .can = can, .prepare = prepare,
     .run = run_avg},
    {TT_KERNEL(cuda, adaptive_avg_pool), .can = can, .prepare = prepare,
     .run = run_adaptive},
    {TT_KERNEL(cuda, adaptive_avg_pool_grad), .can = can, .prepare = prepare,
     .run = run_adaptive},
    {0},
};
