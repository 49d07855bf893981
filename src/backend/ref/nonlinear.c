// nonlinear - reference kernels of the functions of one element. Each function is plain
// C on doubles; the loops over elements are those of elementwise.h.

#include "backend/ref/activation.h"
#include "backend/ref/elementwise.h"
#include "backend/ref/ref.h"
#include "ops/act/activation.h"
#include "ops/ops.h"

#include <math.h>

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

// ---- functions -----------------------------------------------------------

static double gelu(const void *params, double x)
{
    const tt_gelu_params *p = params;
    return tt__activate(
        p->form == TT_GELU_ERF ? TT_ACT_GELU_ERF : TT_ACT_GELU_TANH, x);
}

static double gelu_grad(const void *params, double x, double dy)
{
    const tt_gelu_params *p = params;
    if (p->form == TT_GELU_ERF) {
        const double cdf = 0.5 * (1 + erf(x / sqrt(2.0)));
        const double pdf = exp(-0.5 * x * x) / sqrt(2 * acos(-1.0));
        return dy * (cdf + x * pdf);
    }
    const double c = sqrt(2 / acos(-1.0));
    const double t = tanh(c * (x + 0.044715 * x * x * x));
    const double dt = (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
    return dy * (0.5 * (1 + t) + 0.5 * x * dt);
}

static double relu(const void *params, double x)
{
    (void)params;
    return tt__activate(TT_ACT_RELU, x);
}

static double relu_grad(const void *params, double y, double dy)
{
    (void)params;
    return y <= 0 ? 0 : dy;
}

static double silu(const void *params, double x)
{
    (void)params;
    return x * logistic(x);
}

static double silu_grad(const void *params, double x, double dy)
{
    (void)params;
    const double s = logistic(x);
    return dy * s * (1 + x * (1 - s));
}

static double tangent(const void *params, double x)
{
    (void)params;
    return tanh(x);
}

static double tanh_grad(const void *params, double y, double dy)
{
    (void)params;
    return dy * (1 - y * y);
}

static double sigmoid(const void *params, double x)
{
    (void)params;
    return logistic(x);
}

static double sigmoid_grad(const void *params, double y, double dy)
{
    (void)params;
    return dy * y * (1 - y);
}

static double swiglu(const void *params, double a, double b)
{
    (void)params;
    return a * logistic(a) * b;
}

// ---- kernels -------------------------------------------------------------

TT_KERNEL_RUN(run_gelu, tt__ref_unary(site, args, gelu))

tt_status tt__ref_gelu_grad(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    return tt__ref_binary(site, args, gelu_grad);
}

tt_status tt__ref_relu(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    return tt__ref_unary(site, args, relu);
}

tt_status tt__ref_relu_grad(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    return tt__ref_binary(site, args, relu_grad);
}

TT_KERNEL_RUN(run_silu, tt__ref_unary(site, args, silu))
TT_KERNEL_RUN(run_silu_grad, tt__ref_binary(site, args, silu_grad))
TT_KERNEL_RUN(run_tanh, tt__ref_unary(site, args, tangent))
TT_KERNEL_RUN(run_tanh_grad, tt__ref_binary(site, args, tanh_grad))
TT_KERNEL_RUN(run_sigmoid, tt__ref_unary(site, args, sigmoid))
TT_KERNEL_RUN(run_sigmoid_grad, tt__ref_binary(site, args, sigmoid_grad))
TT_KERNEL_RUN(run_swiglu, tt__ref_binary(site, args, swiglu))

static tt_status run_swiglu_grad(void *state, const tt_site *site,
                                 const tt_args *args)
{
    (void)state;
    const int64_t n = tt_operand_count(&site->out[0]);
    for (int64_t i = 0; i < n; i++) {
        const double a = tt_dtype_load(site->in[0].dtype, args->in[0], i);
        const double b = tt_dtype_load(site->in[1].dtype, args->in[1], i);
        const double dy = tt_dtype_load(site->in[2].dtype, args->in[2], i);
        tt_dtype_store(site->out[0].dtype, args->out[0], i,
                       silu_grad(NULL, a, dy * b));
        tt_dtype_store(site->out[1].dtype, args->out[1], i, dy * silu(NULL, a));
    }
    return TT_OK;
}

const tt_kernel_def tt__ref_nonlinear_kernels[] = {
    {TT_KERNEL(ref, gelu), .in_place = true, .run = run_gelu},
    {TT_KERNEL(ref, gelu_grad), .in_place = true, .run = tt__ref_gelu_grad},
    {TT_KERNEL(ref, relu), .in_place = true, .run = tt__ref_relu},
    {TT_KERNEL(ref, relu_grad), .in_place = true, .run = tt__ref_relu_grad},
    {TT_KERNEL(ref, silu), .in_place = true, .run = run_silu},
    {TT_KERNEL(ref, silu_grad), .in_place = true, .run = run_silu_grad},
    {TT_KERNEL(ref, tanh), .in_place = true, .run = run_tanh},
    {TT_KERNEL(ref, tanh_grad), .in_place = true, .run = run_tanh_grad},
    {TT_KERNEL(ref, sigmoid), .in_place = true, .run = run_sigmoid},
    {TT_KERNEL(ref, sigmoid_grad), .in_place = true, .run = run_sigmoid_grad},
    {TT_KERNEL(ref, swiglu), .in_place = true, .run = run_swiglu},
    {TT_KERNEL(ref, swiglu_grad), .in_place = true, .run = run_swiglu_grad},
    {0},
};
