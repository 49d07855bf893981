// lstm - the recurrence over a sequence. Each step is one product, h times w_hh, and
// the cells on its sums. The product is prepared once and run for every step, since
// only the addresses differ. Sums that pass from step to step are fp32. lstm_cell is
// the cell alone.

#include "backend/cpu/dnnl/gemm.h"
#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/ops.h"

#include <string.h>

enum { XG, W, BIAS, H0, C0 };         // inputs of lstm
enum { H, C, GATES };                 // its outputs
enum { DH, DC, GW, GGATES, GC, GC0 }; // inputs of lstm_grad
enum { DXG, DH0, DC0 };               // its outputs
enum { WDXG, WH, WH0 };               // inputs of lstm_grad_w
enum { FLOAT = (int64_t)sizeof(float) };

typedef struct state {
    tt__cpu_gemm *gemm;
    tt__cpu_gemm *first; // lstm_grad_w: with h0
    int64_t steps, batch, hidden;
    int64_t gemm_bytes; // at the start of scratch memory
} state;

static void release(void *kernel_state)
{
    state *s = kernel_state;
    if (s == NULL)
        return;
    tt__cpu_gemm_destroy(s->gemm);
    tt__cpu_gemm_destroy(s->first);
    tt_free(s);
}

// ---- preparing -----------------------------------------------------------

// A matrix whose rows lie `row` elements apart, and columns `col`.
static tt__dnnl_tensor matrix(tt_dtype dtype, int64_t rows, int64_t cols,
                              int64_t row, int64_t col)
{
    return (tt__dnnl_tensor){
        .dtype = dtype, .ndim = 2, .dims = {rows, cols}, .stride = {row, col}};
}

static state *make_state(const tt_operand *gates)
{
    state *s = tt_alloc(sizeof(*s));
    if (s == NULL)
        return NULL;
    *s = (state){.steps = tt_operand_dim(gates, 0),
                 .batch = tt_operand_dim(gates, 1),
                 .hidden = tt_operand_dim(gates, 2) / 4};
    return s;
}

static tt_status add_gemm(tt_backend *backend, const tt__cpu_gemm_desc *d,
                          state *s, tt__cpu_gemm **gemm)
{
    TT_TRY(tt__cpu_gemm_create(tt__cpu_dnnl(backend), d, gemm));
    const int64_t bytes = tt__round64(tt__cpu_gemm_scratch_bytes(*gemm));
    s->gemm_bytes = bytes > s->gemm_bytes ? bytes : s->gemm_bytes;
    return TT_OK;
}

// Hands the state over, or frees it when the library has no product for it.
static tt_status finish(tt_status status, state *s, int64_t bytes,
                        tt_prepared *prepared_out)
{
    if (status != TT_OK) {
        release(s);
        return status;
    }
    prepared_out->state = s;
    prepared_out->scratch_bytes = s->gemm_bytes + bytes;
    return TT_OK;
}

// sum [batch, 4 hidden] = h * w_hh^T
static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    state *s = make_state(&site->in[XG]);
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "lstm: no memory for a kernel");
    const int64_t n = s->hidden;
    const tt_dtype dtype = site->in[XG].dtype;
    const tt__cpu_gemm_desc d = {
        .a = matrix(dtype, s->batch, n, n, 1),
        .b = matrix(dtype, n, 4 * n, 1, n),
        .c = matrix(TT_F32, s->batch, 4 * n, 4 * n, 1),
    };
    const tt_status status = add_gemm(backend, &d, s, &s->gemm);
    // The sums, the bias and c0 as floats.
    const int64_t floats = s->batch * 4 * n + 4 * n + s->batch * n;
    return finish(status, s, floats * FLOAT, prepared_out);
}

// dh(t-1) [batch, hidden] = dgates(t) * w_hh
static tt_status prepare_grad(tt_backend *backend, tt_site *site,
                              tt_prepared *prepared_out)
{
    state *s = make_state(&site->in[GGATES]);
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "lstm_grad: no memory for a kernel");
    const int64_t n = s->hidden;
    const tt_dtype dtype = site->in[GGATES].dtype;
    const tt__cpu_gemm_desc d = {
        .a = matrix(dtype, s->batch, 4 * n, 4 * n, 1),
        .b = matrix(dtype, 4 * n, n, n, 1),
        .c = matrix(TT_F32, s->batch, n, n, 1),
    };
    const tt_status status = add_gemm(backend, &d, s, &s->gemm);
    // Gradients of h and c on their way back, c0 as floats.
    return finish(status, s, 3 * s->batch * n * FLOAT, prepared_out);
}

// dw [4 hidden, hidden] += dxg^T * h over `rows` rows
static tt__cpu_gemm_desc weights_desc(const tt_site *site, int64_t rows)
{
    const int64_t n4 = tt_operand_dim(&site->in[WDXG], 2), n = n4 / 4;
    const tt_dtype dtype = site->in[WDXG].dtype;
    return (tt__cpu_gemm_desc){
        .a = matrix(dtype, n4, rows, 1, n4),
        .b = matrix(dtype, rows, n, n, 1),
        .c = matrix(TT_F32, n4, n, n, 1),
        .can_add = true,
    };
}

static tt_status prepare_grad_w(tt_backend *backend, tt_site *site,
                                tt_prepared *prepared_out)
{
    state *s = make_state(&site->in[WDXG]);
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "lstm_grad_w: no memory for a kernel");
    const tt__cpu_gemm_desc first = weights_desc(site, s->batch);
    tt_status status = add_gemm(backend, &first, s, &s->first);
    if (status == TT_OK && s->steps > 1) {
        const tt__cpu_gemm_desc d =
            weights_desc(site, (s->steps - 1) * s->batch);
        status = add_gemm(backend, &d, s, &s->gemm);
    }
    return finish(status, s, 0, prepared_out);
}

// ---- forward -------------------------------------------------------------

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ttxtx", "tft");
}

// Entry `step` of a tensor of `size` elements per step.
static const void *step_of(tt_dtype dtype, const void *base, int64_t step,
                           int64_t size)
{
    return base == NULL
               ? NULL
               : (const char *)base + step * size * tt_dtype_bytes(dtype);
}

static void *step_out(tt_dtype dtype, void *base, int64_t step, int64_t size)
{
    return (char *)base + step * size * tt_dtype_bytes(dtype);
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    const state *s = kernel_state;
    const tt_dtype dtype = site->in[XG].dtype;
    const int64_t all = s->batch * s->hidden;
    float *sum = (float *)(void *)((char *)args->scratch + s->gemm_bytes);
    const float *bias =
        tt_site_has(site, BIAS)
            ? tt__as_floats(site->in[BIAS].dtype, args->in[BIAS], 4 * s->hidden,
                            sum + 4 * all)
            : NULL;
    const void *h = args->in[H0];
    const float *c = tt__as_floats(site->in[C0].dtype, args->in[C0], all,
                                   sum + 4 * all + 4 * s->hidden);
    for (int64_t t = 0; t < s->steps; t++) {
        const void *data[] = {h, args->in[W], NULL, sum};
        TT_TRY(tt__cpu_gemm_run(s->gemm, data, false, args->scratch));
        const tt_simd_recurrence_args a = {
            .type = tt__simd_type_of(dtype),
            .rows = s->batch,
            .hidden = s->hidden,
            .sum = sum,
            .x = step_of(dtype, args->in[XG], t, 4 * all),
            .bias = bias,
            .c_prev = c,
            .c = (float *)args->out[C] + t * all,
            .h = step_out(dtype, args->out[H], t, all),
            .gates = step_out(dtype, args->out[GATES], t, 4 * all),
        };
        tt_simd_get()->recurrence->forward(&a);
        h = a.h;
        c = a.c;
    }
    return TT_OK;
}

// ---- backward ------------------------------------------------------------

static bool can_grad(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_is_plain(site) && tt__is_simd(site->in[GGATES].dtype);
}

static tt_status run_grad(void *kernel_state, const tt_site *site,
                          const tt_args *args)
{
    const state *s = kernel_state;
    const tt_dtype dtype = site->in[GGATES].dtype;
    const int64_t all = s->batch * s->hidden;
    const tt_simd_elementwise *simd = tt_simd_get()->elementwise;
    const float *c = args->in[GC];
    float *carry_h = (float *)(void *)((char *)args->scratch + s->gemm_bytes);
    float *carry_c = carry_h + all;
    const float *c0 =
        tt__as_floats(site->in[GC0].dtype, args->in[GC0], all, carry_c + all);
    simd->fill(TT_SIMD_F32, carry_h, all, 0);
    simd->fill(TT_SIMD_F32, carry_c, all, 0);
    for (int64_t t = s->steps - 1; t >= 0; t--) {
        const tt_simd_recurrence_args a = {
            .type = tt__simd_type_of(dtype),
            .rows = s->batch,
            .hidden = s->hidden,
            .c_prev = t == 0 ? c0 : c + (t - 1) * all,
            .c = (float *)(uintptr_t)(c + t * all),
            .gates =
                (void *)(uintptr_t)step_of(dtype, args->in[GGATES], t, 4 * all),
            .d_h = step_of(dtype, args->in[DH], t, all),
            .d_c = step_of(TT_F32, args->in[DC], t, all),
            .carry_h = carry_h,
            .carry_c = carry_c,
            .d_gates = step_out(dtype, args->out[DXG], t, 4 * all),
        };
        tt_simd_get()->recurrence->backward(&a);
        const void *data[] = {a.d_gates, args->in[GW], NULL, carry_h};
        TT_TRY(tt__cpu_gemm_run(s->gemm, data, false, args->scratch));
    }
    simd->cast(TT_SIMD_F32, carry_h, tt__simd_type_of(dtype), args->out[DH0],
               all);
    simd->cast(TT_SIMD_F32, carry_c, tt__simd_type_of(site->out[DC0].dtype),
               args->out[DC0], all);
    return TT_OK;
}

static bool can_grad_w(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "t", "f");
}

static tt_status run_grad_w(void *kernel_state, const tt_site *site,
                            const tt_args *args)
{
    const state *s = kernel_state;
    const tt_dtype dtype = site->in[WDXG].dtype;
    const void *first[] = {args->in[WDXG], args->in[WH0], NULL, args->out[0]};
    TT_TRY(tt__cpu_gemm_run(s->first, first, args->accumulate, args->scratch));
    if (s->gemm == NULL)
        return TT_OK;
    const int64_t gates = 4 * s->batch * s->hidden;
    const void *data[] = {step_of(dtype, args->in[WDXG], 1, gates),
                          args->in[WH], NULL, args->out[0]};
    return tt__cpu_gemm_run(s->gemm, data, true, args->scratch);
}

// ---- one cell ------------------------------------------------------------

static bool can_cell(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "tf", "tf");
}

// Without dh there is nothing for the function to read.
static bool can_cell_grad(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "tftf", "tf") && tt_site_has(site, 2);
}

static tt_simd_lstm_args describe_cell(const tt_site *site, const tt_args *args)
{
    return (tt_simd_lstm_args){
        .type = tt__simd_type_of(site->in[0].dtype),
        .rows = tt_operand_dim(&site->in[1], 0),
        .hidden = tt_operand_dim(&site->in[1], 1),
        .gates = args->in[0],
        .c_prev = args->in[1],
    };
}

static tt_status run_cell(void *kernel_state, const tt_site *site,
                          const tt_args *args)
{
    (void)kernel_state;
    tt_simd_lstm_args a = describe_cell(site, args);
    a.h = args->out[0];
    a.c = args->out[1];
    tt_simd_get()->lstm->forward(&a);
    return TT_OK;
}

static tt_status run_cell_grad(void *kernel_state, const tt_site *site,
                               const tt_args *args)
{
    (void)kernel_state;
    tt_simd_lstm_args a = describe_cell(site, args);
    a.d_h = args->in[2];
    a.d_c = tt_site_has(site, 3) ? args->in[3] : NULL;
    a.d_gates = args->out[0];
    a.d_c_prev = args->out[1];
    tt_simd_get()->lstm->backward(&a);
    return TT_OK;
}

const tt_kernel_def tt__cpu_lstm_kernels[] = {
    {TT_KERNEL(cpu, lstm), .can = can, .prepare = prepare, .run = run,
     .release = release},
    {TT_KERNEL(cpu, lstm_grad), .can = can_grad, .prepare = prepare_grad,
     .run = run_grad, .release = release},
    {TT_KERNEL(cpu, lstm_grad_w), .accumulates = true, .can = can_grad_w,
     .prepare = prepare_grad_w, .run = run_grad_w, .release = release},
    {TT_KERNEL(cpu, lstm_cell), .can = can_cell, .run = run_cell},
    {TT_KERNEL(cpu, lstm_cell_grad), .can = can_cell_grad,
     .run = run_cell_grad},
    {0},
};
