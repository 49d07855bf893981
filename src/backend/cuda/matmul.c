// matmul, matmul_grad_w - GEMMs by the plug-in (dev/gemm), with operands where they
// lie: transposes and padded rows are strides, so nothing is copied.
//
// A trap: vocabularies like 50257. Products that read rows of 16 bits whose length is
// no multiple of 8 are up to ten times slower (82 ms instead of 8 for the logits'
// gradient). So the rows of such results are padded here, with a gap after each, to
// multiples of 128 bytes; dev/gemm/gemm_tail.cu does the odd columns.
//
// Bound by the tensor cores.

#include "ops/matmul.h"

#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include "ops/fused/fused.h"
#include "ops/ops.h"

enum { PAD = 64, LEAST_PADDED = 64 };

typedef struct state {
    const tt__cuda_device *device;
    tt_cuda_gemm *gemm;
    bool is_fused; // the activation is the plug-in's business
} state;

static void release(void *kernel_state)
{
    state *s = kernel_state;
    if (s != NULL && s->gemm != NULL)
        s->device->api->gemm_destroy(s->gemm);
    tt_free(s);
}

// ---- matrices inside operands ----

// Merges dims [from, to) into one, with one stride; false where no single stride
// reaches all elements.
static bool merge(const tt_operand *o, int from, int to, int64_t *stride_out)
{
    int64_t extent = 1, stride = 0;
    for (int d = to - 1; d >= from; d--) {
        const int64_t n = tt_operand_dim(o, d);
        if (n == 1)
            continue;
        if (extent > 1 && o->stride[d] != extent * stride)
            return false;
        if (extent == 1)
            stride = o->stride[d];
        extent *= n;
    }
    *stride_out = stride;
    return true;
}

// One of the two strides must be 1 and the other leave no overlap. The stride along
// an extent of 1 is free to choose.
static bool fix_strides(tt_cuda_matrix *x, int64_t rows, int64_t cols)
{
    if (cols == 1 && x->row != 1)
        x->col = 1;
    if (rows == 1)
        x->row = x->col == 1 ? cols : 1;
    if (x->col == 1)
        return x->row >= cols;
    return x->row == 1 && x->col >= rows;
}

// [rows, cols]: all dims but the last are rows.
static bool as_rows(const tt_operand *o, tt_cuda_matrix *x)
{
    const int last = o->local.shape.ndim - 1;
    const int64_t cols = tt_operand_dim(o, last);
    *x = (tt_cuda_matrix){.type = o->dtype, .col = o->stride[last]};
    return merge(o, 0, last, &x->row) &&
           fix_strides(x, tt_operand_count(o) / cols, cols);
}

// [lead..., rows, cols]: a batch of matrices.
static bool as_batch(const tt_operand *o, tt_cuda_matrix *x)
{
    const int last = o->local.shape.ndim - 1;
    *x = (tt_cuda_matrix){
        .type = o->dtype, .row = o->stride[last - 1], .col = o->stride[last]};
    return merge(o, 0, last - 1, &x->batch) &&
           fix_strides(x, tt_operand_dim(o, last - 1), tt_operand_dim(o, last));
}

static void transpose(tt_cuda_matrix *x)
{
    const int64_t row = x->row;
    x->row = x->col;
    x->col = row;
}

typedef bool form_fn(const tt_operand *o, tt_cuda_matrix *x);

// An operand whose strides do not fit is asked for in dense order: the plan then copies
// it.
static void fit(tt_operand *o, form_fn *form, tt_cuda_matrix *x)
{
    if (form(o, x))
        return;
    tt_operand_set_dense(o);
    (void)form(o, x);
}

// Results are stored by rows.
static void fit_result(tt_operand *o, form_fn *form, tt_cuda_matrix *x)
{
    if (form(o, x) && x->col == 1)
        return;
    tt_operand_set_dense(o);
    (void)form(o, x);
}

static void pad_rows(tt_operand *o)
{
    const int last = o->local.shape.ndim - 1;
    const int64_t n = tt_operand_dim(o, last);
    if (!tt__is_low(o->dtype) || n < LEAST_PADDED || n % 8 == 0 ||
        !tt_operand_is_dense(o))
        return;
    int64_t stride = (n + PAD - 1) / PAD * PAD;
    for (int d = last - 1; d >= 0; d--) {
        o->stride[d] = stride;
        stride *= tt_operand_dim(o, d);
    }
}

// ---- matmul ----

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ssy", "y");
}

static void describe(tt_site *site, tt_cuda_gemm_desc *d)
{
    const tt_matmul_params *p = site->params;
    const tt_matmul_dims dims = tt_matmul_dims_of(p, &site->in[0].local.shape,
                                                  &site->in[1].local.shape);
    form_fn *form =
        site->in[1].local.shape.ndim > 2 || p->transpose_a ? as_batch : as_rows;
    *d = (tt_cuda_gemm_desc){.batch = dims.batch,
                             .m = dims.m,
                             .n = dims.n,
                             .k = dims.k,
                             .bias_type = TT_N_DTYPES};
    fit(&site->in[0], form, &d->a);
    fit(&site->in[1], as_batch, &d->b);
    fit_result(&site->out[0], form, &d->c);
    if (p->transpose_a)
        transpose(&d->a);
    if (p->transpose_b)
        transpose(&d->b);
    if (tt_site_has(site, 2))
        d->bias_type = site->in[2].dtype;
}

static tt_status create(state *s, const tt_cuda_gemm_desc *d,
                        tt_prepared *prepared_out)
{
    const tt_cuda_api *api = s->device->api;
    tt_status status =
        tt__cuda_status(api->gemm_create(s->device->cuda, d, &s->gemm));
    if (status == TT_OK && s->gemm == NULL)
        status = TT_ERR_UNSUPPORTED;
    if (status == TT_OK) {
        prepared_out->scratch_bytes = api->gemm_scratch(s->gemm);
        return TT_OK;
    }
    release(s);
    prepared_out->state = NULL;
    return status;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const tt_matmul_params *p = site->params;
    const bool has_act = p->activation != TT_ACT_NONE;
    tt_cuda_gemm_desc d;
    if (has_act) {
        tt_operand_set_dense(&site->out[0]);
        tt_operand_set_dense(&site->out[1]);
    } else {
        pad_rows(&site->out[0]);
    }
    describe(site, &d);
    d.is_exact = backend->options.exact;
    TT_TRY(tt__cuda_state(backend, sizeof(state), prepared_out));
    state *s = prepared_out->state;
    d.has_gelu = s->is_fused =
        p->activation == TT_ACT_GELU_TANH && tt__is_low(d.c.type);
    return create(s, &d, prepared_out);
}

static tt_cuda_fn function_of(int activation)
{
    static const tt_cuda_fn fn[] = {
        [TT_ACT_RELU] = TT_CUDA_RELU,
        [TT_ACT_GELU_TANH] = TT_CUDA_GELU_TANH,
        [TT_ACT_GELU_ERF] = TT_CUDA_GELU_ERF,
        [TT_ACT_SILU] = TT_CUDA_SILU,
        [TT_ACT_TANH] = TT_CUDA_TANH,
        [TT_ACT_SIGMOID] = TT_CUDA_SIGMOID,
    };
    return fn[activation];
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    const state *s = kernel_state;
    const tt_matmul_params *p = site->params;
    const bool has_act = p->activation != TT_ACT_NONE;
    const tt_cuda_gemm_args a = {
        .a = args->in[0],
        .b = args->in[1],
        .bias = tt_site_has(site, 2) ? args->in[2] : NULL,
        .c = args->out[has_act && !s->is_fused ? 1 : 0],
        .aux = s->is_fused ? args->out[1] : NULL,
        .scratch = args->scratch};
    TT_TRY(tt__cuda_status(
        s->device->api->gemm_run(s->device->cuda, s->gemm, &a)));
    if (!has_act || s->is_fused)
        return TT_OK;
    const tt_cuda_map_args act = {.fn = function_of(p->activation),
                                  .type = site->out[0].dtype,
                                  .n = tt_operand_count(&site->out[0]),
                                  .a = args->out[1],
                                  .y = args->out[0]};
    return TT__CUDA(kernel_state, map, &act);
}

// ---- matmul_add, matmul_gelu_grad ----

static bool can_fused(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    const bool is_add = site->op == &tt_op_matmul_add;
    return tt__site_has_types(site, is_add ? "ssys" : "sss", "s");
}

static tt_status prepare_fused(tt_backend *backend, tt_site *site,
                               tt_prepared *prepared_out)
{
    const bool is_add = site->op == &tt_op_matmul_add;
    tt_cuda_gemm_desc d;
    tt_operand_set_dense(&site->out[0]);
    describe(site, &d);
    d.is_exact = backend->options.exact;
    d.has_plus = is_add;
    d.has_gelu_grad = !is_add;
    if (!is_add)
        d.bias_type = TT_N_DTYPES; // input 2 is z
    TT_TRY(tt__cuda_state(backend, sizeof(state), prepared_out));
    return create(prepared_out->state, &d, prepared_out);
}

static tt_status run_fused(void *kernel_state, const tt_site *site,
                           const tt_args *args)
{
    const state *s = kernel_state;
    const bool is_add = site->op == &tt_op_matmul_add;
    const bool has_bias = is_add && tt_site_has(site, TT_MA_BIAS);
    const tt_cuda_gemm_args a = {.a = args->in[0],
                                 .b = args->in[1],
                                 .bias = has_bias ? args->in[TT_MA_BIAS] : NULL,
                                 .plus = is_add ? args->in[TT_MA_PLUS] : NULL,
                                 .z = is_add ? NULL : args->in[TT_MG_Z],
                                 .c = args->out[0],
                                 .scratch = args->scratch};
    return tt__cuda_status(
        s->device->api->gemm_run(s->device->cuda, s->gemm, &a));
}

// ---- matmul_grad_w: dw = x^T dy, or dy^T x ----

static tt_status prepare_grad_w(tt_backend *backend, tt_site *site,
                                tt_prepared *prepared_out)
{
    const tt_matmul_grad_w_params *p = site->params;
    const bool is_both = site->op == &tt_op_matmul_grad_both;
    const tt_operand *x = &site->in[0], *dy = &site->in[1];
    const int64_t nx = tt_operand_dim(x, x->local.shape.ndim - 1);
    const int64_t ny = tt_operand_dim(dy, dy->local.shape.ndim - 1);
    tt_cuda_gemm_desc d = {.batch = 1,
                           .m = p->transposed ? ny : nx,
                           .n = p->transposed ? nx : ny,
                           .k = tt_operand_count(x) / nx,
                           .bias_type = TT_N_DTYPES,
                           .adds = true,
                           .is_exact = backend->options.exact};
    tt_operand_set_dense(&site->out[0]);
    fit(&site->in[0], as_rows, p->transposed ? &d.b : &d.a);
    fit(&site->in[1], as_rows, p->transposed ? &d.a : &d.b);
    (void)as_rows(&site->out[0], &d.c);
    transpose(&d.a);
    if (is_both)
        d.sums = p->transposed ? TT_CUDA_SUMS_OF_A : TT_CUDA_SUMS_OF_B;
    TT_TRY(tt__cuda_state(backend, sizeof(state), prepared_out));
    return create(prepared_out->state, &d, prepared_out);
}

static tt_status run_grad_w(void *kernel_state, const tt_site *site,
                            const tt_args *args)
{
    const state *s = kernel_state;
    const tt_matmul_grad_w_params *p = site->params;
    const tt_cuda_gemm_args a = {.a = args->in[p->transposed ? 1 : 0],
                                 .b = args->in[p->transposed ? 0 : 1],
                                 .c = args->out[0],
                                 .sums = site->n_out > 1 ? args->out[1] : NULL,
                                 .accumulate = args->accumulate,
                                 .scratch = args->scratch};
    return tt__cuda_status(
        s->device->api->gemm_run(s->device->cuda, s->gemm, &a));
}

static bool can_both(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ssy", "f");
}

const tt_kernel_def tt__cuda_matmul_kernels[] = {
    {TT_KERNEL(cuda, matmul), .strided_in = 3, .strided_out = 1, .can = can,
     .prepare = prepare, .run = run, .release = release},
    {TT_KERNEL(cuda, matmul_grad_w), .strided_in = 3, .accumulates = true,
     .can = can, .prepare = prepare_grad_w, .run = run_grad_w,
     .release = release},
    {TT_KERNEL(cuda, matmul_add), .strided_in = 3, .can = can_fused,
     .prepare = prepare_fused, .run = run_fused, .release = release},
    {TT_KERNEL(cuda, matmul_gelu_grad), .strided_in = 3, .can = can_fused,
     .prepare = prepare_fused, .run = run_fused, .release = release},
    {TT_KERNEL(cuda, matmul_grad_both), .strided_in = 1, .accumulates = true,
     .can = can_both, .prepare = prepare_grad_w, .run = run_grad_w,
     .release = release},
    {0},
};
