// odd_backend - layouts and strides that the reference backend does not have.

#include "plan/odd_backend.h"

#include "ops/arith.h"
#include "ops/matmul.h"
#include "ops/ops.h"

enum { N = 4, COUNT = N * N };

int32_t odd_layout = ODD_TIGHT;

static bool is_square(const tt_operand *o)
{
    return o->dtype == TT_F64 && o->local.shape.ndim == 2 &&
           tt_operand_dim(o, 0) == N && tt_operand_dim(o, 1) == N;
}

// Where element i, row-major, of an operand lies.
static int64_t position(const tt_operand *o, int64_t i)
{
    if (o->layout != 0)
        return COUNT - 1 - i;
    int64_t at = 0;
    for (int d = o->local.shape.ndim - 1; d >= 0; d--) {
        at += i % tt_operand_dim(o, d) * o->stride[d];
        i /= tt_operand_dim(o, d);
    }
    return at;
}

static void clear_padding(const tt_operand *o, double *x)
{
    if (o->layout == ODD_PADDED)
        x[COUNT] = 0;
}

static tt_status run_reorder(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    const tt_operand *in = &site->in[0], *out = &site->out[0];
    const int64_t n = tt_operand_count(out);
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(out->dtype, args->out[0], position(out, i),
                       tt_dtype_load(in->dtype, args->in[0], position(in, i)));
    clear_padding(out, args->out[0]);
    return TT_OK;
}

static bool can_reorder(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return site->in[0].dtype == site->out[0].dtype;
}

static bool can_matmul(const tt_backend *backend, const tt_site *site)
{
    const tt_matmul_params *p = site->params;
    (void)backend;
    return is_square(&site->in[1]) && site->in[0].layout == 0 &&
           site->in[0].local.shape.ndim == 2 && !p->transpose_a &&
           p->activation == TT_ACT_NONE;
}

static tt_status prepare_matmul(tt_backend *backend, tt_site *site,
                                tt_prepared *prepared_out)
{
    (void)backend;
    (void)prepared_out;
    site->in[1].layout = odd_layout;
    return TT_OK;
}

static tt_status run_matmul(void *state, const tt_site *site,
                            const tt_args *args)
{
    const tt_matmul_params *p = site->params;
    const double *a = args->in[0], *b = args->in[1];
    const double *bias = site->n_in > 2 ? args->in[2] : NULL;
    double *y = args->out[0];
    const int64_t m = tt_operand_dim(&site->in[0], 0);
    (void)state;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < N; j++) {
            double sum = bias != NULL ? bias[j] : 0;
            for (int64_t k = 0; k < N; k++)
                sum += a[i * N + k] *
                       b[position(&site->in[1],
                                  p->transpose_b ? j * N + k : k * N + j)];
            y[i * N + j] = sum;
        }
    return TT_OK;
}

static bool can_grad_w(const tt_backend *backend, const tt_site *site)
{
    const tt_matmul_grad_w_params *p = site->params;
    (void)backend;
    return is_square(&site->out[0]) && site->in[0].layout == 0 &&
           site->in[1].layout == 0 && !p->transposed;
}

static tt_status run_grad_w(void *state, const tt_site *site,
                            const tt_args *args)
{
    const double *x = args->in[0], *dy = args->in[1];
    double *dw = args->out[0];
    const int64_t m = tt_operand_dim(&site->in[0], 0);
    (void)state;
    for (int64_t k = 0; k < COUNT; k++) {
        double *to = &dw[position(&site->out[0], k)];
        double sum = args->accumulate ? *to : 0;
        for (int64_t i = 0; i < m; i++)
            sum += x[i * N + k / N] * dy[i * N + k % N];
        *to = sum;
    }
    clear_padding(&site->out[0], dw);
    return TT_OK;
}

static tt_status run_scale(void *state, const tt_site *site,
                           const tt_args *args)
{
    const tt_scale_params *p = site->params;
    const tt_operand *in = &site->in[0], *out = &site->out[0];
    (void)state;
    for (int64_t i = 0; i < tt_operand_count(out); i++)
        tt_dtype_store(
            out->dtype, args->out[0], position(out, i),
            p->by * tt_dtype_load(in->dtype, args->in[0], position(in, i)));
    return TT_OK;
}

static bool has_dtype(tt_dtype dtype)
{
    return dtype == TT_F64;
}

static int64_t layout_bytes(tt_backend *backend, int32_t layout)
{
    (void)backend;
    return (COUNT + (layout == ODD_PADDED)) * 8;
}

static const tt_kernel_def own[] = {
    {TT_KERNEL(odd, reorder), .strided_in = 1, .strided_out = 1,
     .can = can_reorder, .run = run_reorder},
    {TT_KERNEL(odd, matmul), .can = can_matmul, .prepare = prepare_matmul,
     .run = run_matmul},
    {TT_KERNEL(odd, matmul_grad_w), .accumulates = true, .can = can_grad_w,
     .run = run_grad_w},
    {TT_KERNEL(odd, scale), .strided_in = 1, .strided_out = 1,
     .run = run_scale},
    {0},
};
static const tt_kernel_def *const kernels[] = {own, NULL};

const tt_backend_def odd_backend = {
    .name = "odd",
    .doc = "Matrices backwards.",
    .kernels = kernels,
    .has_dtype = has_dtype,
    .layout_bytes = layout_bytes,
};
