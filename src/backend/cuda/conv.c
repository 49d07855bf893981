// conv and its gradients - by cuDNN, or by cuBLASLt where a convolution is a GEMM (1 x
// 1, or windows that do not overlap); whichever is faster for the shape (dev/conv).
// Kernels ask for channels last, and tensors stay so from layer to layer, so copies
// between layouts are needed only at the ends of a network.
//
// Bound by the tensor cores, narrow layers by memory bandwidth. First layers, whose
// images have few channels, have kernels of their own. What cuDNN cannot express
// (windows that begin inside the image, where ranks share one) goes to a plain kernel.

#include "ops/nn/conv.h"

#include "backend/cuda/layout.h"
#include "base/alloc.h"
#include "ops/fused/fused.h"
#include "ops/ops.h"

typedef struct state {
    const tt__cuda_device *device;
    tt_cuda_conv *conv;
} state;

static void release(void *kernel_state)
{
    state *s = kernel_state;
    if (s != NULL && s->conv != NULL)
        s->device->api->conv_destroy(s->conv);
    tt_free(s);
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types_in_layouts(
        site, site->op == &tt_op_conv_grad_x_add ? "sss" : "ssy",
        site->op == &tt_op_conv ? "s" : "y"); // no wide terms
}

// The three tensors of a site.
typedef struct roles {
    tt_cuda_way way;
    tt_operand *x, *w, *y;
} roles;

static roles roles_of(tt_site *site)
{
    if (site->op == &tt_op_conv || site->op == &tt_op_conv_relu)
        return (roles){TT_CUDA_FORWARD, &site->in[0], &site->in[1],
                       &site->out[0]};
    if (site->op == &tt_op_conv_grad_x)
        return (roles){TT_CUDA_GRAD_X, &site->out[0], &site->in[1],
                       &site->in[0]};
    if (site->op == &tt_op_conv_grad_x_add)
        return (roles){TT_CUDA_GRAD_X, &site->out[0], &site->in[TT_CA_W],
                       &site->in[TT_CA_DY]};
    return (roles){TT_CUDA_GRAD_W, &site->in[0], &site->out[0], &site->in[1]};
}

static tt_cuda_conv_desc describe(const tt_site *site, const roles *r)
{
    const tt_conv_geometry g = tt_conv_geometry_of(site->params, &r->x->local,
                                                   &r->w->local, &r->y->local);
    const bool has_bias = r->way == TT_CUDA_FORWARD && tt_site_has(site, 2);
    tt_cuda_conv_desc d = {
        .way = r->way,
        .type = site->in[0].dtype,
        .bias_type = has_bias ? site->in[2].dtype : TT_N_DTYPES,
        .has_relu = site->op == &tt_op_conv_relu,
        .adds = site->op == &tt_op_conv_grad_x_add,
        .n = g.n,
        .groups = g.groups,
        .c = g.c,
        .o = g.o,
    };
    tt__cuda_slides(g.slide, d.slide);
    return d;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const roles r = roles_of(site);
    TT_TRY(tt__cuda_channels_last(backend, r.x));
    TT_TRY(tt__cuda_channels_last(backend, r.w));
    TT_TRY(tt__cuda_channels_last(backend, r.y));
    if (site->op == &tt_op_conv_grad_x_add)
        TT_TRY(tt__cuda_channels_last(backend, &site->in[TT_CA_PLUS]));
    TT_TRY(tt__cuda_state(backend, sizeof(state), prepared_out));
    state *s = prepared_out->state;
    const tt_cuda_conv_desc d = describe(site, &r);
    const tt_status status = tt__cuda_status(
        s->device->api->conv_create(s->device->cuda, &d, &s->conv));
    if (status != TT_OK) {
        release(s);
        return status;
    }
    prepared_out->scratch_bytes = s->device->api->conv_scratch(s->conv);
    return TT_OK;
}

// dx = plus + ...: the convolution adds to dx, so plus is copied there first, unless dx
// has taken its place already.
static tt_status run_add(void *kernel_state, const tt_site *site,
                         const tt_args *args)
{
    const state *s = kernel_state;
    const tt_operand *dx = &site->out[0];
    const tt_cuda_copy_args plus = {.ndim = 1,
                                    .dim = {tt_operand_count(dx)},
                                    .to_stride = {1},
                                    .from_stride = {1},
                                    .to_type = dx->dtype,
                                    .from_type = dx->dtype,
                                    .to = args->out[0],
                                    .from = args->in[TT_CA_PLUS]};
    const tt_cuda_conv_args a = {
        .x = args->out[0],
        .w = (void *)(uintptr_t)args->in[TT_CA_W],
        .y = (void *)(uintptr_t)args->in[TT_CA_DY],
        .scratch = args->scratch,
    };
    if (plus.to != plus.from)
        TT_TRY(TT__CUDA(kernel_state, copy, &plus));
    return tt__cuda_status(
        s->device->api->conv_run(s->device->cuda, s->conv, &a));
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    const state *s = kernel_state;
    void *in[2] = {(void *)(uintptr_t)args->in[0],
                   (void *)(uintptr_t)args->in[1]};
    tt_cuda_conv_args a = {.scratch = args->scratch,
                           .accumulate = args->accumulate};
    if (site->op == &tt_op_conv || site->op == &tt_op_conv_relu) {
        a.x = in[0];
        a.w = in[1];
        a.y = args->out[0];
        a.bias = tt_site_has(site, 2) ? args->in[2] : NULL;
    } else if (site->op == &tt_op_conv_grad_x) {
        a.y = in[0];
        a.w = in[1];
        a.x = args->out[0];
    } else {
        a.x = in[0];
        a.y = in[1];
        a.w = args->out[0];
    }
    return tt__cuda_status(
        s->device->api->conv_run(s->device->cuda, s->conv, &a));
}

// ---- bias: sums of columns, bound by reading dy once ----

static tt_cuda_reduce_args rows_of(const tt_site *site)
{
    const tt_operand *dy = &site->in[0];
    const int64_t c = tt_operand_dim(dy, 1);
    return (tt_cuda_reduce_args){.outer = 1,
                                 .length = tt_operand_count(dy) / c,
                                 .inner = c,
                                 .by = 1,
                                 .x_type = dy->dtype,
                                 .y_type = site->out[0].dtype};
}

static tt_status prepare_b(tt_backend *backend, tt_site *site,
                           tt_prepared *prepared_out)
{
    const tt_cuda_reduce_args a = rows_of(site);
    TT_TRY(tt__cuda_channels_last(backend, &site->in[0]));
    prepared_out->scratch_bytes = tt__cuda_of(backend)->api->reduce_scratch(&a);
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_status run_b(void *kernel_state, const tt_site *site,
                       const tt_args *args)
{
    tt_cuda_reduce_args a = rows_of(site);
    a.x = args->in[0];
    a.y = args->out[0];
    a.scratch = args->scratch;
    a.accumulate = args->accumulate;
    return TT__CUDA(kernel_state, reduce, &a);
}

// ---- activation and bias: dz and its sums in one pass ----

static bool can_bias(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types_in_layouts(site, "ttx", "tf");
}

static tt_cuda_bn_args columns_of(const tt_site *site)
{
    const tt_operand *y = &site->in[TT_RB_Y];
    const int64_t n = tt_operand_dim(y, 0), c = tt_operand_dim(y, 1);
    return (tt_cuda_bn_args){.type = y->dtype,
                             .n = n,
                             .channels = c,
                             .points = tt_operand_count(y) / (n * c),
                             .groups = 1,
                             .samples = n,
                             .rows = 1};
}

static tt_status prepare_bias(tt_backend *backend, tt_site *site,
                              tt_prepared *prepared_out)
{
    const tt_cuda_bn_args a = columns_of(site);
    TT_TRY(tt__cuda_channels_last(backend, &site->in[TT_RB_Y]));
    TT_TRY(tt__cuda_channels_last(backend, &site->in[TT_RB_DY]));
    TT_TRY(tt__cuda_channels_last(backend, &site->out[TT_RB_DZ]));
    prepared_out->scratch_bytes = tt__cuda_of(backend)->api->bn_scratch(&a);
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_status run_bias(void *kernel_state, const tt_site *site,
                          const tt_args *args)
{
    tt_cuda_bn_args a = columns_of(site);
    a.mask = args->in[TT_RB_Y];
    a.dy = args->in[TT_RB_DY];
    a.d_residual = args->out[TT_RB_DZ];
    a.dbeta = args->out[TT_RB_DB];
    a.scratch = args->scratch;
    return TT__CUDA(kernel_state, relu_grad_bias, &a);
}

const tt_kernel_def tt__cuda_conv_kernels[] = {
    {TT_KERNEL(cuda, conv), .can = can, .prepare = prepare, .run = run,
     .release = release},
    {TT_KERNEL(cuda, conv_relu), .can = can, .prepare = prepare, .run = run,
     .release = release},
    {TT_KERNEL(cuda, conv_grad_x), .can = can, .prepare = prepare, .run = run,
     .release = release},
    {TT_KERNEL(cuda, conv_grad_x_add), .in_place = true, .can = can,
     .prepare = prepare, .run = run_add, .release = release},
    {TT_KERNEL(cuda, conv_grad_w), .accumulates = true, .can = can,
     .prepare = prepare, .run = run, .release = release},
    {TT_KERNEL(cuda, conv_grad_b), .accumulates = true, .can = can,
     .prepare = prepare_b, .run = run_b},
    {TT_KERNEL(cuda, relu_grad_bias), .in_place = true, .can = can_bias,
     .prepare = prepare_bias, .run = run_bias},
    {0},
};
