// fused - reference kernels of the fused operators. Each runs the reference kernels of
// its parts one after the other. So a fused operator means, by definition, the same as
// what it replaced, and fast fused kernels are compared with that.

#include "ops/fused/fused.h"

#include "backend/ref/gemm.h"
#include "backend/ref/ref.h"
#include "ops/act/activation.h"
#include "ops/matmul.h"
#include "ops/nn/loss.h"
#include "ops/nn/norm.h"
#include "ops/ops.h"

enum { MAX_PART = 6 };

// One part: the operands of the whole that it reads and writes, as a site of its own.
typedef struct part {
    tt_operand in[MAX_PART], out[MAX_PART];
    const void *in_at[MAX_PART];
    void *out_at[MAX_PART];
    int n_in, n_out;
} part;

static void reads(part *p, const tt_site *site, const tt_args *args, int i)
{
    p->in[p->n_in] =
        i < site->n_in ? site->in[i] : (tt_operand){.dtype = TT_N_DTYPES};
    p->in_at[p->n_in++] = i < site->n_in ? args->in[i] : NULL;
}

static void reads_at(part *p, const tt_operand *o, const void *at)
{
    p->in[p->n_in] = *o;
    p->in_at[p->n_in++] = at;
}

static void writes(part *p, const tt_operand *o, void *at)
{
    p->out[p->n_out] = *o;
    p->out_at[p->n_out++] = at;
}

static tt_status run_part(part *p, tt_kernel_run_fn *run, const void *params,
                          const tt_site *whole, const tt_args *args)
{
    const tt_site site = {.op = whole->op, // no part asks
                          .params = params,
                          .origin = whole->origin,
                          .n_in = p->n_in,
                          .n_out = p->n_out,
                          .in = p->in,
                          .out = p->out};
    const tt_args at = {.in = p->in_at,
                        .out = p->out_at,
                        .scratch = args->scratch,
                        .accumulate = args->accumulate};
    return run(NULL, &site, &at);
}

// output 0 += input i
static tt_status add(const tt_site *site, const tt_args *args, int i)
{
    const tt_operand *y = &site->out[0];
    const int64_t n = tt_operand_count(y);
    for (int64_t k = 0; k < n && tt_site_has(site, i); k++)
        tt_dtype_store(y->dtype, args->out[0], k,
                       tt_dtype_load(y->dtype, args->out[0], k) +
                           tt_dtype_load(site->in[i].dtype, args->in[i], k));
    return TT_OK;
}

// ---- norm_grad -----------------------------------------------------------

static tt_status run_norm_grad(void *state, const tt_site *site,
                               const tt_args *args)
{
    (void)state;
    const bool has_mean = tt_site_has(site, TT_NG_MEAN);
    const tt_norm_grad_params *p = site->params;
    const tt_layer_norm_grad_w_params bias = {p->bias};
    part x = {0}, w = {0};
    reads(&x, site, args, TT_NG_X);
    reads(&x, site, args, TT_NG_DY);
    reads(&x, site, args, TT_NG_GAMMA);
    reads(&w, site, args, TT_NG_X);
    reads(&w, site, args, TT_NG_DY);
    if (has_mean) {
        reads(&x, site, args, TT_NG_MEAN);
        reads(&w, site, args, TT_NG_MEAN);
    }
    reads(&x, site, args, TT_NG_RSTD);
    reads(&w, site, args, TT_NG_RSTD);
    writes(&x, &site->out[TT_NG_DX], args->out[TT_NG_DX]);
    for (int i = TT_NG_DGAMMA; i < site->n_out - p->sums; i++)
        writes(&w, &site->out[i], args->out[i]);
    // dx may overwrite x, so it comes last.
    TT_TRY(run_part(
        &w, has_mean ? tt__ref_layer_norm_grad_w : tt__ref_rms_norm_grad_w,
        &bias, site, args));
    TT_TRY(run_part(
        &x, has_mean ? tt__ref_layer_norm_grad_x : tt__ref_rms_norm_grad_x,
        NULL, site, args));
    TT_TRY(add(site, args, TT_NG_PLUS));
    if (!p->sums)
        return TT_OK;
    part sums = {0};
    reads_at(&sums, &site->out[TT_NG_DX], args->out[TT_NG_DX]);
    writes(&sums, &site->out[site->n_out - 1], args->out[site->n_out - 1]);
    return run_part(&sums, tt__ref_bias_grad, NULL, site, args);
}

// ---- cross_entropy_step --------------------------------------------------

static tt_status prepare_loss(tt_backend *backend, tt_site *site,
                              tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes = 8 * tt_operand_count(&site->in[1]);
    return TT_OK;
}

static tt_status run_cross_entropy_step(void *state, const tt_site *site,
                                        const tt_args *args)
{
    (void)state;
    const double one = 1;
    tt_operand lse = site->in[1], dsum = site->out[TT_CS_SUM];
    part forward = {0}, hits = {0}, grad = {0};
    lse.dtype = dsum.dtype = TT_F64;
    for (int i = 0; i < 2; i++) {
        reads(&forward, site, args, i);
        reads(&hits, site, args, i);
        reads(&grad, site, args, i);
    }
    writes(&forward, &site->out[TT_CS_SUM], args->out[TT_CS_SUM]);
    writes(&forward, &site->out[TT_CS_COUNT], args->out[TT_CS_COUNT]);
    writes(&forward, &lse, args->scratch);
    writes(&hits, &site->out[TT_CS_CORRECT], args->out[TT_CS_CORRECT]);
    reads_at(&grad, &lse, args->scratch);
    if (tt_site_has(site, TT_CS_FACTOR))
        reads(&grad, site, args, TT_CS_FACTOR);
    else
        reads_at(&grad, &dsum, &one);
    writes(&grad, &site->out[TT_CS_DLOGITS], args->out[TT_CS_DLOGITS]);
    TT_TRY(run_part(&forward, tt__ref_cross_entropy, site->params, site, args));
    TT_TRY(run_part(&hits, tt__ref_correct, NULL, site, args));
    return run_part(&grad, tt__ref_cross_entropy_grad, site->params, site,
                    args);
}

// ---- products ------------------------------------------------------------

static tt_status run_product(const tt_site *site, const tt_args *args, int n)
{
    part p = {0};
    for (int i = 0; i < n; i++)
        reads(&p, site, args, i);
    writes(&p, &site->out[0], args->out[0]);
    return run_part(&p, tt__ref_matmul, site->params, site, args);
}

static tt_status run_add(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    TT_TRY(run_product(site, args, 3));
    return add(site, args, TT_MA_PLUS);
}

static tt_status run_gelu_grad(void *state, const tt_site *site,
                               const tt_args *args)
{
    (void)state;
    const tt_gelu_params form = {TT_GELU_TANH};
    part p = {0};
    TT_TRY(run_product(site, args, 2));
    reads(&p, site, args, TT_MG_Z);
    reads_at(&p, &site->out[0], args->out[0]);
    writes(&p, &site->out[0], args->out[0]);
    return run_part(&p, tt__ref_gelu_grad, &form, site, args);
}

static tt_status run_both(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    tt_args anew = *args;
    part w = {0}, b = {0};
    reads(&w, site, args, TT_GB_X);
    reads(&w, site, args, TT_GB_DY);
    writes(&w, &site->out[0], args->out[0]);
    reads(&b, site, args, TT_GB_DY);
    writes(&b, &site->out[1], args->out[1]);
    anew.accumulate = false; // of output 0 alone
    TT_TRY(run_part(&w, tt__ref_matmul_grad_w, site->params, site, args));
    return run_part(&b, tt__ref_bias_grad, NULL, site, &anew);
}

const tt_kernel_def tt__ref_fused_kernels[] = {
    {TT_KERNEL(ref, cross_entropy_step), .in_place = true,
     .prepare = prepare_loss, .run = run_cross_entropy_step},
    {TT_KERNEL(ref, matmul_add), .prepare = tt__gemm_prepare, .run = run_add},
    {TT_KERNEL(ref, matmul_gelu_grad), .prepare = tt__gemm_prepare,
     .run = run_gelu_grad},
    {TT_KERNEL(ref, matmul_grad_both), .accumulates = true,
     .prepare = tt__gemm_prepare, .run = run_both},
    {TT_KERNEL(ref, norm_grad), .in_place = true, .run = run_norm_grad},
    {0},
};
