// activation - nonlinear functions of elements. Operands are dense vectors, or layouts
// seen as vectors (choose.c). The gradients may overwrite either input, so that a
// backward pass needs no memory for them.

#include "ops/act/activation.h"

#include "backend/cpu/wrap.h"
#include "ops/ops.h"

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "t", "t");
}

static tt_simd_act_args describe(const tt_site *site, const tt_args *args,
                                 tt_simd_act act)
{
    return (tt_simd_act_args){
        .type = tt__simd_type_of(site->in[0].dtype),
        .act = act,
        .n = tt_operand_count(&site->in[0]),
        .x = args->in[0],
    };
}

static tt_status forward(const tt_site *site, const tt_args *args,
                         tt_simd_act act)
{
    tt_simd_act_args a = describe(site, args, act);
    a.y = args->out[0];
    tt_simd_get()->activation->forward(&a);
    return TT_OK;
}

static tt_status backward(const tt_site *site, const tt_args *args,
                          tt_simd_act act)
{
    tt_simd_act_args a = describe(site, args, act);
    a.d_y = args->in[1];
    a.d_x = args->out[0];
    tt_simd_get()->activation->backward(&a);
    return TT_OK;
}

static tt_simd_act gelu_of(const tt_site *site)
{
    const tt_gelu_params *p = site->params;
    return p->form == TT_GELU_ERF ? TT_SIMD_ACT_GELU_ERF
                                  : TT_SIMD_ACT_GELU_TANH;
}

TT_KERNEL_RUN(run_gelu, forward(site, args, gelu_of(site)))
TT_KERNEL_RUN(run_gelu_grad, backward(site, args, gelu_of(site)))
TT_KERNEL_RUN(run_relu, forward(site, args, TT_SIMD_ACT_RELU))
TT_KERNEL_RUN(run_relu_grad, backward(site, args, TT_SIMD_ACT_RELU))
TT_KERNEL_RUN(run_silu, forward(site, args, TT_SIMD_ACT_SILU))
TT_KERNEL_RUN(run_silu_grad, backward(site, args, TT_SIMD_ACT_SILU))
TT_KERNEL_RUN(run_tanh, forward(site, args, TT_SIMD_ACT_TANH))
TT_KERNEL_RUN(run_sigmoid, forward(site, args, TT_SIMD_ACT_SIGMOID))

// ---- gradients from the result -------------------------------------------

static tt_simd_from_result_args from_result(const tt_site *site,
                                            const tt_args *args)
{
    return (tt_simd_from_result_args){
        .type = tt__simd_type_of(site->in[0].dtype),
        .n = tt_operand_count(&site->in[0]),
        .y = args->in[0],
        .d_y = args->in[1],
        .d_x = args->out[0],
    };
}

static tt_status run_tanh_grad(void *state, const tt_site *site,
                               const tt_args *args)
{
    (void)state;
    const tt_simd_from_result_args a = from_result(site, args);
    tt_simd_get()->pointwise->tanh_grad(&a);
    return TT_OK;
}

static tt_status run_sigmoid_grad(void *state, const tt_site *site,
                                  const tt_args *args)
{
    (void)state;
    const tt_simd_from_result_args a = from_result(site, args);
    tt_simd_get()->pointwise->sigmoid_grad(&a);
    return TT_OK;
}

// ---- swiglu --------------------------------------------------------------

static tt_status run_swiglu(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    const tt_simd_glu_args a = {
        .type = tt__simd_type_of(site->in[0].dtype),
        .n = tt_operand_count(&site->in[0]),
        .a = args->in[0],
        .b = args->in[1],
        .y = args->out[0],
    };
    tt_simd_get()->activation->swiglu(&a);
    return TT_OK;
}

static tt_status run_swiglu_grad(void *state, const tt_site *site,
                                 const tt_args *args)
{
    (void)state;
    const tt_simd_glu_args a = {
        .type = tt__simd_type_of(site->in[0].dtype),
        .n = tt_operand_count(&site->in[0]),
        .a = args->in[0],
        .b = args->in[1],
        .d_y = args->in[2],
        .d_a = args->out[0],
        .d_b = args->out[1],
    };
    tt_simd_get()->activation->swiglu_backward(&a);
    return TT_OK;
}

#define ELEMENTS(op) TT_KERNEL(cpu, op), .in_place = true, .can = can

const tt_kernel_def tt__cpu_activation_kernels[] = {
    {ELEMENTS(gelu), .run = run_gelu},
    {ELEMENTS(gelu_grad), .run = run_gelu_grad},
    {ELEMENTS(relu), .run = run_relu},
    {ELEMENTS(relu_grad), .run = run_relu_grad},
    {ELEMENTS(silu), .run = run_silu},
    {ELEMENTS(silu_grad), .run = run_silu_grad},
    {ELEMENTS(tanh), .run = run_tanh},
    {ELEMENTS(tanh_grad), .run = run_tanh_grad},
    {ELEMENTS(sigmoid), .run = run_sigmoid},
    {ELEMENTS(sigmoid_grad), .run = run_sigmoid_grad},
    {ELEMENTS(swiglu), .run = run_swiglu},
    {ELEMENTS(swiglu_grad), .run = run_swiglu_grad},
    {0},
};
