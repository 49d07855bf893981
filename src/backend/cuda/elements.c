// elements - functions of elements at the same place: bound by memory bandwidth, read
// and written in pieces of 16 bytes.

#include "backend/cuda/cuda.h"
#include "ops/act/activation.h"
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

#define ELEMENTS(op) TT__CUDA_KERNEL(op), .in_place = true, .can = can

const tt_kernel_def tt__cuda_elements_kernels[] = {
    {ELEMENTS(gelu), .run = run_gelu}, {ELEMENTS(gelu_grad), .run = run_gelu},
    {ELEMENTS(relu), .run = run},      {ELEMENTS(relu_grad), .run = run},
    {ELEMENTS(silu), .run = run},      {ELEMENTS(silu_grad), .run = run},
    {ELEMENTS(tanh), .run = run},      {ELEMENTS(tanh_grad), .run = run},
    {ELEMENTS(sigmoid), .run = run},   {ELEMENTS(sigmoid_grad), .run = run},
    {ELEMENTS(swiglu), .run = run},    {ELEMENTS(swiglu_grad), .run = run},
    {ELEMENTS(add), .run = run_pair},  {ELEMENTS(mul), .run = run_pair},
    {ELEMENTS(scale), .run = run},     {0},
};
