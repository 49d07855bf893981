// matmul, matmul_grad_w, bias_grad - reference kernels on the product of gemm.h. Bias,
// activation and rounding happen while a row of sums is written, from doubles.

#include "ops/matmul.h"

#include "backend/ref/activation.h"
#include "backend/ref/gemm.h"
#include "backend/ref/ref.h"
#include "ops/ops.h"

static const void *element(const tt_operand *o, const void *base, int64_t i)
{
    return (const char *)base + i * tt_dtype_bytes(o->dtype);
}

// Where the product goes: bias, activation, rounding.
typedef struct target {
    const tt_site *site;
    const tt_args *args;
    int64_t first, row; // element of y[0, 0]; elements from row to row
    int activation;
} target;

static void write_y(const void *to, int64_t i, int64_t j0, int64_t n,
                    const double *c)
{
    const target *t = to;
    const tt_site *site = t->site;
    const tt_dtype dtype = site->out[0].dtype;
    for (int64_t j = 0; j < n; j++) {
        double z = c[j];
        if (tt_site_has(site, 2))
            z += tt_dtype_load(site->in[2].dtype, t->args->in[2], j0 + j);
        const int64_t at = t->first + i * t->row + j0 + j;
        if (t->activation != TT_ACT_NONE) {
            tt_dtype_store(dtype, t->args->out[1], at, z);
            z = tt_dtype_load(dtype, t->args->out[1], at);
        }
        tt_dtype_store(dtype, t->args->out[0], at,
                       tt__activate((tt_activation)t->activation, z));
    }
}

tt_status tt__ref_matmul(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_matmul_params *p = site->params;
    const tt_operand *a = &site->in[0], *b = &site->in[1];
    const tt_matmul_dims d =
        tt_matmul_dims_of(p, &a->local.shape, &b->local.shape);
    for (int64_t i = 0; i < d.batch; i++) {
        const tt__matrix ma = {
            .base = element(a, args->in[0], i * d.m * d.k),
            .dtype = a->dtype,
            .line_stride = p->transpose_a ? 1 : d.k,
            .entry_stride = p->transpose_a ? d.m : 1,
        };
        const tt__matrix mb = {
            .base = element(b, args->in[1], i * d.k * d.n),
            .dtype = b->dtype,
            .line_stride = p->transpose_b ? d.k : 1,
            .entry_stride = p->transpose_b ? 1 : d.n,
        };
        const target to = {site, args, i * d.m * d.n, d.n, p->activation};
        const tt__gemm g = {
            .m = d.m,
            .n = d.n,
            .k = d.k,
            .a = &ma,
            .b = &mb,
            .to = &to,
            .read_a = tt__matrix_read,
            .read_b = tt__matrix_read,
            .write = write_y,
        };
        tt__gemm_run(&g, args->scratch);
    }
    return TT_OK;
}

tt_status tt__ref_matmul_grad_w(void *state, const tt_site *site,
                                const tt_args *args)
{
    (void)state;
    const tt_matmul_grad_w_params *p = site->params;
    const tt_operand *x = &site->in[0], *dy = &site->in[1];
    const int64_t k = tt_operand_dim(x, x->local.shape.ndim - 1);
    const int64_t n = tt_operand_dim(dy, dy->local.shape.ndim - 1);
    const tt__matrix mx = {args->in[0], x->dtype, 1, k};
    const tt__matrix my = {args->in[1], dy->dtype, 1, n};
    const tt__sum to = {site->out[0].dtype, args->out[0], p->transposed ? k : n,
                        args->accumulate};
    const tt__gemm g = {
        .m = p->transposed ? n : k,
        .n = p->transposed ? k : n,
        .k = tt_operand_count(x) / k,
        .a = p->transposed ? &my : &mx,
        .b = p->transposed ? &mx : &my,
        .to = &to,
        .read_a = tt__matrix_read,
        .read_b = tt__matrix_read,
        .write = tt__sum_write,
    };
    tt__gemm_run(&g, args->scratch);
    return TT_OK;
}

tt_status tt__ref_bias_grad(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    const tt_operand *dy = &site->in[0];
    const int64_t n = tt_operand_count(&site->out[0]);
    const int64_t rows = tt_operand_count(dy) / n;
    const tt__sum to = {site->out[0].dtype, args->out[0], n, args->accumulate};
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += tt_dtype_load(dy->dtype, args->in[0], i * n + j);
        tt__sum_write(&to, 0, j, 1, &sum);
    }
    return TT_OK;
}

const tt_kernel_def tt__ref_matmul_kernels[] = {
    {TT_KERNEL(ref, matmul), .prepare = tt__gemm_prepare,
     .run = tt__ref_matmul},
    {TT_KERNEL(ref, matmul_grad_w), .accumulates = true,
     .prepare = tt__gemm_prepare, .run = tt__ref_matmul_grad_w},
    {TT_KERNEL(ref, bias_grad), .accumulates = true, .run = tt__ref_bias_grad},
    {0},
};
