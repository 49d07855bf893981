// elements - functions of elements at the same place: bound by memory bandwidth, read
// and written in pieces of 16 bytes.

#include "backend/cuda/cuda.h"
#include "ops/activation.h"
#include "ops/arith.h"
#include "ops/ops.h"

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "s", "s");
}

static tt_status map(void *state, const tt_site *site, const tt_args *args,
                     tt_cuda_fn fn)
{
    const tt_cuda_map_args a = {
        .fn = fn,
        .type = site->in[0].dtype,
        .n = tt_operand_count(&site->out[0]),
        .by = site->op == &tt_op_scale
                  ? (float)((const tt_scale_params *)site->params)->by
                  : 1,
        .a = args->in[0],
        .b = site->n_in > 1 ? args->in[1] : NULL,
        .c = site->n_in > 2 ? args->in[2] : NULL,
        .y = args->out[0],
        .y2 = site->n_out > 1 ? args->out[1] : NULL,
    };
    return TT__CUDA(state, map, &a);
}

static tt_status run_gelu(void *state, const tt_site *site, const tt_args *args)
{
    const tt_gelu_params *p = site->params;
    const bool is_erf = p->form == TT_GELU_ERF;
    if (site->op == &tt_op_gelu)
        return map(state, site, args,
                   is_erf ? TT_CUDA_GELU_ERF : TT_CUDA_GELU_TANH);
    return map(state, site, args,
               is_erf ? TT_CUDA_GELU_ERF_GRAD : TT_CUDA_GELU_TANH_GRAD);
}

const tt_kernel_def tt_kernel_cuda_gelu = {
    .name = "cuda.gelu",
    .op = &tt_op_gelu,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run_gelu,
};

const tt_kernel_def tt_kernel_cuda_gelu_grad = {
    .name = "cuda.gelu_grad",
    .op = &tt_op_gelu_grad,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run_gelu,
};

// The function of an operator that has but one.
static tt_cuda_fn function_of(const tt_op_def *op)
{
    const struct {
        const tt_op_def *op;
        tt_cuda_fn fn;
    } all[] = {
        {&tt_op_relu, TT_CUDA_RELU},
        {&tt_op_relu_grad, TT_CUDA_RELU_GRAD},
        {&tt_op_silu, TT_CUDA_SILU},
        {&tt_op_silu_grad, TT_CUDA_SILU_GRAD},
        {&tt_op_tanh, TT_CUDA_TANH},
        {&tt_op_tanh_grad, TT_CUDA_TANH_GRAD},
        {&tt_op_sigmoid, TT_CUDA_SIGMOID},
        {&tt_op_sigmoid_grad, TT_CUDA_SIGMOID_GRAD},
        {&tt_op_swiglu, TT_CUDA_SWIGLU},
        {&tt_op_swiglu_grad, TT_CUDA_SWIGLU_GRAD},
        {&tt_op_scale, TT_CUDA_SCALE},
    };
    int i = 0;
    while (all[i].op != op)
        i++;
    return all[i].fn;
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    return map(state, site, args, function_of(site->op));
}

const tt_kernel_def tt_kernel_cuda_relu = {
    .name = "cuda.relu",
    .op = &tt_op_relu,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run,
};

const tt_kernel_def tt_kernel_cuda_relu_grad = {
    .name = "cuda.relu_grad",
    .op = &tt_op_relu_grad,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run,
};

const tt_kernel_def tt_kernel_cuda_silu = {
    .name = "cuda.silu",
    .op = &tt_op_silu,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run,
};

const tt_kernel_def tt_kernel_cuda_silu_grad = {
    .name = "cuda.silu_grad",
    .op = &tt_op_silu_grad,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run,
};

const tt_kernel_def tt_kernel_cuda_tanh = {
    .name = "cuda.tanh",
    .op = &tt_op_tanh,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run,
};

const tt_kernel_def tt_kernel_cuda_tanh_grad = {
    .name = "cuda.tanh_grad",
    .op = &tt_op_tanh_grad,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run,
};

const tt_kernel_def tt_kernel_cuda_sigmoid = {
    .name = "cuda.sigmoid",
    .op = &tt_op_sigmoid,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run,
};

const tt_kernel_def tt_kernel_cuda_sigmoid_grad = {
    .name = "cuda.sigmoid_grad",
    .op = &tt_op_sigmoid_grad,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run,
};

const tt_kernel_def tt_kernel_cuda_swiglu = {
    .name = "cuda.swiglu",
    .op = &tt_op_swiglu,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run,
};

const tt_kernel_def tt_kernel_cuda_swiglu_grad = {
    .name = "cuda.swiglu_grad",
    .op = &tt_op_swiglu_grad,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run,
};

const tt_kernel_def tt_kernel_cuda_scale = {
    .name = "cuda.scale",
    .op = &tt_op_scale,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run,
};

// ---- two operands, the second repeated -----------------------------------

static tt_status run_pair(void *state, const tt_site *site, const tt_args *args)
{
    const tt_cuda_fn fn = site->op == &tt_op_add ? TT_CUDA_ADD : TT_CUDA_MUL;
    const tt_shape *a = &site->in[0].local.shape;
    const tt_shape *b = &site->in[1].local.shape;
    if (tt_shape_count(a) == tt_shape_count(b))
        return map(state, site, args, fn);
    tt_cuda_broadcast_args c = {.fn = fn,
                                .type = site->in[0].dtype,
                                .ndim = a->ndim,
                                .a = args->in[0],
                                .b = args->in[1],
                                .y = args->out[0]};
    int map_b[TT_MAX_DIMS];
    int64_t stride[TT_MAX_DIMS];
    (void)tt_broadcast_map(&(tt_i64s){0}, b, a, map_b);
    tt_shape_strides(b, stride);
    for (int d = 0; d < a->ndim; d++) {
        const bool repeats = map_b[d] < 0 || tt_shape_dim(b, map_b[d]) == 1;
        c.dim[d] = tt_shape_dim(a, d);
        c.b_stride[d] = repeats ? 0 : stride[map_b[d]];
    }
    return TT__CUDA(state, broadcast, &c);
}

const tt_kernel_def tt_kernel_cuda_add = {
    .name = "cuda.add",
    .op = &tt_op_add,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run_pair,
};

const tt_kernel_def tt_kernel_cuda_mul = {
    .name = "cuda.mul",
    .op = &tt_op_mul,
    .in_place = true,
    .can = can,
    .prepare = tt__cuda_prepare,
    .run = run_pair,
};
