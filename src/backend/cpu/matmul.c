// matmul, matmul_grad_w - matrix products through oneDNN, with operands where they lie.
//
// Transposes, slices of a packed projection and rows with gaps are strides, which the
// library takes, so nothing is copied. Weights stay plain: with them oneDNN reaches the
// same rate as with weights in its own format (2 Zen 4 cores, GPT-2's shapes: 100-113
// GFLOP/s per core in f32, 190-220 in bf16, also for 50257 columns). So no layout needs
// to be carried through optimiser, checkpoint and wire.
//
// How sums are cut so that they do not depend on threads: dnnl/gemm.c.

#include "ops/matmul.h"

#include "backend/cpu/cpu.h"
#include "backend/cpu/dnnl/gemm.h"
#include "backend/cpu/simd.h"
#include "base/alloc.h"
#include "ops/ops.h"

typedef struct state {
    tt__cpu_gemm *gemm;
    tt_simd_act_args act;
} state;

static void release(void *kernel_state)
{
    state *s = kernel_state;
    if (s != NULL)
        tt__cpu_gemm_destroy(s->gemm);
    tt_free(s);
}

// ---- matrices inside operands ----

// Sees dims [from, to) as one dim; false when no single stride reaches all elements.
static bool merge(const tt_operand *o, int from, int to, int64_t *extent_out,
                  int64_t *stride_out)
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
    *extent_out = extent;
    *stride_out = stride;
    return true;
}

// oneDNN wants one of the two strides to be 1 and the other to leave no overlap. The
// stride along an extent of 1 is free to choose.
static bool fix_strides(tt__dnnl_tensor *t)
{
    const int r = t->ndim - 2, c = t->ndim - 1;
    if (t->dims[c] == 1 && t->stride[r] != 1)
        t->stride[c] = 1;
    if (t->dims[r] == 1)
        t->stride[r] = t->stride[c] == 1 ? t->dims[c] : 1;
    if (t->stride[c] == 1)
        return t->stride[r] >= t->dims[c];
    return t->stride[r] == 1 && t->stride[c] >= t->dims[r];
}

// [rows, cols]: all dims but the last are rows.
static bool as_rows(const tt_operand *o, tt__dnnl_tensor *t)
{
    const int last = o->local.shape.ndim - 1;
    *t = (tt__dnnl_tensor){.dtype = o->dtype, .ndim = 2};
    t->dims[1] = tt_operand_dim(o, last);
    t->stride[1] = o->stride[last];
    return merge(o, 0, last, &t->dims[0], &t->stride[0]) && fix_strides(t);
}

// [lead..., rows, cols] as it is.
static bool as_batch(const tt_operand *o, tt__dnnl_tensor *t)
{
    *t = tt__dnnl_tensor_of(o);
    return fix_strides(t);
}

static void transpose(tt__dnnl_tensor *t)
{
    const int r = t->ndim - 2, c = t->ndim - 1;
    const int64_t dim = t->dims[r], stride = t->stride[r];
    t->dims[r] = t->dims[c];
    t->stride[r] = t->stride[c];
    t->dims[c] = dim;
    t->stride[c] = stride;
}

typedef bool form_fn(const tt_operand *o, tt__dnnl_tensor *t);

// An operand whose strides do not fit is asked for dense; lowering then converts it.
static void fit(tt_operand *o, form_fn *form, tt__dnnl_tensor *t)
{
    if (o->layout == 0 && form(o, t))
        return;
    tt_operand_set_dense(o);
    (void)form(o, t);
}

static tt_status make_state(tt_backend *backend, const tt__cpu_gemm_desc *d,
                            tt_prepared *prepared_out)
{
    state *s = tt_alloc(sizeof(*s));
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "matmul: no memory for a kernel");
    const tt_status status =
        tt__cpu_gemm_create(tt__cpu_dnnl(backend), d, &s->gemm);
    if (status != TT_OK) {
        tt_free(s);
        return status;
    }
    prepared_out->state = s;
    prepared_out->scratch_bytes = tt__cpu_gemm_scratch_bytes(s->gemm);
    return TT_OK;
}

// ---- matmul ----

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__cpu_is_fast(site->in[0].dtype);
}

static void describe(tt_site *site, tt__cpu_gemm_desc *d)
{
    const tt_matmul_params *p = site->params;
    form_fn *form =
        site->in[1].local.shape.ndim > 2 || p->transpose_a ? as_batch : as_rows;
    fit(&site->in[0], form, &d->a);
    fit(&site->in[1], as_batch, &d->b);
    fit(&site->out[0], form, &d->c);
    if (p->transpose_a)
        transpose(&d->a);
    if (p->transpose_b)
        transpose(&d->b);
    if (tt_site_has(site, 2))
        d->bias = tt__dnnl_tensor_of(&site->in[2]);
}

tt_simd_act_args tt__matmul_act(const tt_site *site)
{
    static const tt_simd_act acts[] = {
        [TT_ACT_RELU] = TT_SIMD_ACT_RELU,
        [TT_ACT_GELU_TANH] = TT_SIMD_ACT_GELU_TANH,
        [TT_ACT_GELU_ERF] = TT_SIMD_ACT_GELU_ERF,
        [TT_ACT_SILU] = TT_SIMD_ACT_SILU,
        [TT_ACT_TANH] = TT_SIMD_ACT_TANH,
        [TT_ACT_SIGMOID] = TT_SIMD_ACT_SIGMOID,
    };
    const tt_matmul_params *p = site->params;
    return (tt_simd_act_args){
        .type = site->out[0].dtype == TT_BF16 ? TT_SIMD_BF16 : TT_SIMD_F32,
        .act = acts[p->activation],
        .n = tt_operand_count(&site->out[0]),
    };
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const tt_matmul_params *p = site->params;
    if (p->activation != TT_ACT_NONE) {
        tt_operand_set_dense(&site->out[0]);
        tt_operand_set_dense(&site->out[1]);
    }
    tt__cpu_gemm_desc d = {0};
    describe(site, &d);
    tt_status status = make_state(backend, &d, prepared_out);
    if (status == TT_ERR_UNSUPPORTED) { // strides the library is slow with
        tt_operand_set_dense(&site->in[0]);
        tt_operand_set_dense(&site->in[1]);
        tt_operand_set_dense(&site->out[0]);
        describe(site, &d);
        status = make_state(backend, &d, prepared_out);
    }
    TT_TRY(status);
    ((state *)prepared_out->state)->act = tt__matmul_act(site);
    return TT_OK;
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    state *s = kernel_state;
    const tt_matmul_params *p = site->params;
    const bool has_act = p->activation != TT_ACT_NONE;
    const void *data[] = {args->in[0], args->in[1],
                          tt_site_has(site, 2) ? args->in[2] : NULL,
                          args->out[has_act ? 1 : 0]};
    TT_TRY(tt__cpu_gemm_run(s->gemm, data, false, args->scratch));
    if (!has_act)
        return TT_OK;
    tt_simd_act_args act = s->act;
    act.x = args->out[1];
    act.y = args->out[0];
    tt_simd_get()->activation->forward(&act);
    return TT_OK;
}

// ---- matmul_grad_w: dw = x^T dy, or dy^T x ----

static tt_status prepare_grad_w(tt_backend *backend, tt_site *site,
                                tt_prepared *prepared_out)
{
    const tt_matmul_grad_w_params *p = site->params;
    tt__cpu_gemm_desc d = {.can_add = true};
    tt_operand_set_dense(&site->out[0]);
    fit(&site->in[0], as_rows, p->transposed ? &d.b : &d.a);
    fit(&site->in[1], as_rows, p->transposed ? &d.a : &d.b);
    (void)as_rows(&site->out[0], &d.c);
    transpose(&d.a);
    prepared_out->accumulates = true;
    return make_state(backend, &d, prepared_out);
}

static tt_status run_grad_w(void *kernel_state, const tt_site *site,
                            const tt_args *args)
{
    state *s = kernel_state;
    const tt_matmul_grad_w_params *p = site->params;
    const void *data[] = {args->in[p->transposed ? 1 : 0],
                          args->in[p->transposed ? 0 : 1], NULL, args->out[0]};
    return tt__cpu_gemm_run(s->gemm, data, args->accumulate, args->scratch);
}

const tt_kernel_def tt__cpu_matmul_kernels[] = {
    {TT_KERNEL(cpu, matmul), .strided_in = 3, .strided_out = 1, .can = can,
     .prepare = prepare, .run = run, .release = release},
    {TT_KERNEL(cpu, matmul_grad_w), .strided_in = 3, .accumulates = true,
     .can = can, .prepare = prepare_grad_w, .run = run_grad_w,
     .release = release},
    {0},
};
