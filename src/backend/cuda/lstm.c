// lstm, lstm_cell and their gradients - a product and a cell per step; the weight's
// gradient is two products over all steps.

#include "ops/nn/lstm.h"

#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include "ops/ops.h"

enum { XG, W, BIAS, H0, C0 };
enum { H, C, GATES };
enum { DH, DC, GW, GGATES, GC, GC0 };
enum { DXG, DH0, DC0 };
enum { N_GATES = 4 };

typedef struct state {
    const tt__cuda_device *device;
    tt_cuda_gemm *gemm, *rest; // a step's; of grad_w: of step 0, of the others
    int64_t own;               // bytes of scratch before the products'
    int64_t steps, batch, hidden;
} state;

static void release(void *kernel_state)
{
    state *s = kernel_state;
    if (s != NULL && s->gemm != NULL)
        s->device->api->gemm_destroy(s->gemm);
    if (s != NULL && s->rest != NULL)
        s->device->api->gemm_destroy(s->rest);
    tt_free(s);
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    const tt_dtype type = site->in[site->op == &tt_op_lstm_grad ? GW : 0].dtype;
    return tt__site_is_plain(site) && (type == TT_F32 || tt__is_low(type));
}

static bool can_cell(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_is_plain(site);
}

static tt_status make_gemm(state *s, const tt_cuda_gemm_desc *d,
                           tt_cuda_gemm **out, tt_prepared *prepared)
{
    TT_TRY(
        tt__cuda_status(s->device->api->gemm_create(s->device->cuda, d, out)));
    if (*out == NULL)
        return TT_ERR_UNSUPPORTED;
    const int64_t bytes = s->own + s->device->api->gemm_scratch(*out);
    if (bytes > prepared->scratch_bytes)
        prepared->scratch_bytes = bytes;
    return TT_OK;
}

static tt_cuda_gemm_desc product(tt_dtype type, int64_t m, int64_t n, int64_t k)
{
    return (tt_cuda_gemm_desc){.batch = 1,
                               .m = m,
                               .n = n,
                               .k = k,
                               .a = {.type = type},
                               .b = {.type = type},
                               .c = {.type = TT_F32, .row = n, .col = 1},
                               .bias_type = TT_N_DTYPES};
}

// Forward [batch, 4 hidden] = h w^T, backward [batch, hidden] = dgates w.
static tt_status make_step(state *s, const tt_operand *w, bool is_back,
                           tt_prepared *prepared)
{
    const int64_t wide = N_GATES * s->hidden;
    tt_cuda_gemm_desc d = is_back
                              ? product(w->dtype, s->batch, s->hidden, wide)
                              : product(w->dtype, s->batch, wide, s->hidden);
    d.a.row = is_back ? wide : s->hidden;
    d.a.col = 1;
    d.b.row = is_back ? s->hidden : 1;
    d.b.col = is_back ? 1 : s->hidden;
    return make_gemm(s, &d, &s->gemm, prepared);
}

// [4 hidden, hidden] over the rows of one step, and over those of all others.
static tt_status make_grad_w(state *s, tt_dtype type, tt_prepared *prepared)
{
    const int64_t wide = N_GATES * s->hidden;
    for (int i = 0; i < 2; i++) {
        const int64_t rows = i == 0 ? s->batch : (s->steps - 1) * s->batch;
        tt_cuda_gemm_desc d = product(type, wide, s->hidden, rows);
        d.a.row = 1;
        d.a.col = wide;
        d.b.row = s->hidden;
        d.b.col = 1;
        d.adds = true;
        if (rows > 0)
            TT_TRY(make_gemm(s, &d, i == 0 ? &s->gemm : &s->rest, prepared));
    }
    return TT_OK;
}

static int64_t round_up(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const bool is_back = site->op == &tt_op_lstm_grad;
    const tt_operand *gates = &site->in[is_back ? GGATES : 0];
    TT_TRY(tt__cuda_state(backend, sizeof(state), prepared_out));
    state *s = prepared_out->state;
    s->steps = tt_operand_dim(gates, 0);
    s->batch = tt_operand_dim(gates, 1);
    s->hidden = tt_operand_dim(gates, 2) / N_GATES;
    const int64_t unit = 4 * s->batch * s->hidden;
    tt_status status;
    if (site->op == &tt_op_lstm_grad_w) {
        status = make_grad_w(s, gates->dtype, prepared_out);
    } else { // the step's product; backward: gradients of h and c
        s->own = round_up((is_back ? 2 : N_GATES) * unit);
        status =
            make_step(s, &site->in[is_back ? GW : W], is_back, prepared_out);
    }
    if (status != TT_OK)
        release(s);
    return status;
}

// Row `at` of rows of `width` in an operand; absent: absent.
static tt_cuda_any part(const tt_operand *o, const void *data, int64_t at)
{
    const int64_t offset = at * tt_dtype_bytes(o->dtype);
    return (tt_cuda_any){
        o->dtype, data == NULL ? NULL : (char *)(uintptr_t)data + offset};
}

static tt_cuda_any input(const tt_site *site, const tt_args *args, int i,
                         int64_t at)
{
    return tt_site_has(site, i) ? part(&site->in[i], args->in[i], at)
                                : (tt_cuda_any){.type = TT_F32};
}

static tt_cuda_any output(const tt_site *site, const tt_args *args, int i,
                          int64_t at)
{
    return part(&site->out[i], args->out[i], at);
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    const state *s = kernel_state;
    const int64_t unit = s->batch * s->hidden;
    for (int64_t t = 0; t < s->steps; t++) {
        const int64_t now = t * unit, before = now - unit;
        const tt_cuda_gemm_args g = {
            .a = t == 0 ? args->in[H0] : output(site, args, H, before).data,
            .b = args->in[W],
            .c = args->scratch,
            .scratch = (char *)args->scratch + s->own};
        const tt_cuda_lstm_args a = {
            .batch = s->batch,
            .hidden = s->hidden,
            .sum = args->scratch,
            .xg = input(site, args, XG, N_GATES * now),
            .bias = input(site, args, BIAS, 0),
            .c_prev = t == 0 ? input(site, args, C0, 0)
                             : output(site, args, C, before),
            .c = output(site, args, C, now),
            .h = output(site, args, H, now),
            .gates = output(site, args, GATES, N_GATES * now)};
        TT_TRY(tt__cuda_status(
            s->device->api->gemm_run(s->device->cuda, s->gemm, &g)));
        TT_TRY(TT__CUDA(kernel_state, lstm_step, &a));
    }
    return TT_OK;
}

// Scratch to an output, with its type.
static tt_status store(void *kernel_state, const float *from,
                       const tt_operand *o, void *to)
{
    const tt_cuda_copy_args a = {.ndim = 1,
                                 .dim = {tt_operand_count(o)},
                                 .to_stride = {1},
                                 .from_stride = {1},
                                 .to_type = o->dtype,
                                 .from_type = TT_F32,
                                 .to = to,
                                 .from = from};
    return TT__CUDA(kernel_state, copy, &a);
}

static tt_status run_grad(void *kernel_state, const tt_site *site,
                          const tt_args *args)
{
    const state *s = kernel_state;
    const int64_t unit = s->batch * s->hidden;
    float *dh = args->scratch, *dc = dh + unit;
    TT_TRY(tt__cuda_status(
        s->device->api->fill(s->device->cuda, dh, 0, 8 * unit)));
    for (int64_t t = s->steps - 1; t >= 0; t--) {
        const int64_t now = t * unit;
        const tt_cuda_lstm_args a = {
            .batch = s->batch,
            .hidden = s->hidden,
            .sum = dh,
            .c_prev = t == 0 ? input(site, args, GC0, 0)
                             : input(site, args, GC, now - unit),
            .c = input(site, args, GC, now),
            .gates = input(site, args, GGATES, N_GATES * now),
            .dh = input(site, args, DH, now),
            .dc = input(site, args, DC, now),
            .dgates = output(site, args, DXG, N_GATES * now),
            .dc_carry = dc};
        const tt_cuda_gemm_args g = {.a = a.dgates.data,
                                     .b = args->in[GW],
                                     .c = dh,
                                     .scratch = (char *)args->scratch + s->own};
        TT_TRY(TT__CUDA(kernel_state, lstm_back, &a));
        TT_TRY(tt__cuda_status(
            s->device->api->gemm_run(s->device->cuda, s->gemm, &g)));
    }
    TT_TRY(store(kernel_state, dh, &site->out[DH0], args->out[DH0]));
    return store(kernel_state, dc, &site->out[DC0], args->out[DC0]);
}

// dgates, h, h0
static tt_status run_grad_w(void *kernel_state, const tt_site *site,
                            const tt_args *args)
{
    const state *s = kernel_state;
    tt_cuda_gemm_args g = {.a = args->in[0],
                           .b = args->in[2],
                           .c = args->out[0],
                           .accumulate = args->accumulate,
                           .scratch = args->scratch};
    TT_TRY(tt__cuda_status(
        s->device->api->gemm_run(s->device->cuda, s->gemm, &g)));
    if (s->rest == NULL)
        return TT_OK;
    g.a = input(site, args, 0, N_GATES * s->batch * s->hidden).data;
    g.b = args->in[1];
    g.accumulate = true;
    return tt__cuda_status(
        s->device->api->gemm_run(s->device->cuda, s->rest, &g));
}

// ---- cell ----

static tt_cuda_lstm_args cell_of(const tt_site *site, const tt_args *args)
{
    return (tt_cuda_lstm_args){.batch = tt_operand_dim(&site->in[1], 0),
                               .hidden = tt_operand_dim(&site->in[1], 1),
                               .xg = input(site, args, 0, 0),
                               .c_prev = input(site, args, 1, 0)};
}

static tt_status run_cell(void *kernel_state, const tt_site *site,
                          const tt_args *args)
{
    tt_cuda_lstm_args a = cell_of(site, args);
    a.h = output(site, args, 0, 0);
    a.c = output(site, args, 1, 0);
    return TT__CUDA(kernel_state, lstm_step, &a);
}

static tt_status run_cell_grad(void *kernel_state, const tt_site *site,
                               const tt_args *args)
{
    tt_cuda_lstm_args a = cell_of(site, args);
    a.dh = input(site, args, 2, 0);
    a.dc = input(site, args, 3, 0);
    a.dgates = output(site, args, 0, 0);
    a.dc_prev = output(site, args, 1, 0);
    return TT__CUDA(kernel_state, lstm_back, &a);
}

const tt_kernel_def tt__cuda_lstm_kernels[] = {
    {TT_KERNEL(cuda, lstm), .can = can, .prepare = prepare, .run = run,
     .release = release},
    {TT_KERNEL(cuda, lstm_grad), .can = can, .prepare = prepare,
     .run = run_grad, .release = release},
    {TT_KERNEL(cuda, lstm_grad_w), .accumulates = true, .can = can,
     .prepare = prepare, .run = run_grad_w, .release = release},
    {TT__CUDA_KERNEL(lstm_cell), .can = can_cell, .run = run_cell},
    {TT__CUDA_KERNEL(lstm_cell_grad), .can = can_cell, .run = run_cell_grad},
    {0},
};
