// fused_conv - reference kernels of conv_relu, conv_grad_x_add and relu_grad_bias: the
// kernels of their parts, one after the other (see fused.c).

#include "backend/ref/gemm.h"
#include "backend/ref/ref.h"
#include "ops/fused/fused.h"
#include "ops/ops.h"

static tt_status run_relu(void *state, const tt_site *site, const tt_args *args)
{
    tt_site relu = *site;
    tt_args after = *args;
    const void *y[] = {args->out[0]};
    TT_TRY(tt__ref_conv(state, site, args));
    relu.in = site->out;
    relu.n_in = 1;
    after.in = y;
    return tt__ref_relu(state, &relu, &after);
}

static tt_status run_add(void *state, const tt_site *site, const tt_args *args)
{
    tt_site gradient = *site;
    tt_args after = *args;
    const tt_operand *dx = &site->out[0];
    gradient.in += TT_CA_DY;
    gradient.n_in -= TT_CA_DY;
    after.in += TT_CA_DY;
    TT_TRY(tt__ref_conv_grad_x(state, &gradient, &after));
    for (int64_t i = 0; i < tt_operand_count(dx); i++)
        tt_dtype_store(dx->dtype, args->out[0], i,
                       tt_dtype_load(dx->dtype, args->out[0], i) +
                           tt_dtype_load(dx->dtype, args->in[TT_CA_PLUS], i));
    return TT_OK;
}

static tt_status run_bias(void *state, const tt_site *site, const tt_args *args)
{
    tt_site relu = *site, bias = *site;
    tt_operand in[2] = {site->out[TT_RB_DZ]};
    const void *dz[2] = {args->out[TT_RB_DZ]};
    tt_args after = *args;
    relu.n_in = TT_RB_B;
    relu.n_out = 1;
    TT_TRY(tt__ref_relu_grad(state, &relu, args));
    bias.in = in;
    bias.n_in = site->n_in - TT_RB_DY;
    if (bias.n_in > 1)
        in[1] = site->in[TT_RB_B];
    bias.out += TT_RB_DB;
    bias.n_out = 1;
    after.in = dz;
    after.out += TT_RB_DB;
    return tt__ref_conv_grad_b(state, &bias, &after);
}

const tt_kernel_def tt__ref_fused_conv_kernels[] = {
    {TT_KERNEL(ref, conv_grad_x_add), .prepare = tt__gemm_prepare,
     .run = run_add},
    {TT_KERNEL(ref, conv_relu), .prepare = tt__gemm_prepare, .run = run_relu},
    {TT_KERNEL(ref, relu_grad_bias), .run = run_bias},
    {0},
};
