// conv, conv_grad_x - convolutions through oneDNN.
//
// The library is fastest with channels in blocks of a vector's width (nChw16c) and
// weights blocked to match. Converting images for every layer would cost as much as it
// gains. So the primitive is made with formats left open, the library chooses, and the
// operands keep these layouts from layer to layer: batch norm, pooling and element-wise
// kernels take them as they are (choose.c). Weights lie as the forward convolution
// wants them, and the optimiser updates them there.
//
// The algorithm:
//
//   direct     the library's main kernel
//   winograd   F(4x4, 3x3): fewer multiplications. 2 to 3 times as fast for VGG's and
//              ResNet's layers of 3 x 3 in f32, at a relative error of 1e-6 where
//              direct has 2e-7
//   im2col     the library's matrix product
//   auto       winograd where suits_winograd says that it is faster, else direct
//
// Where the library has no such kernel for a geometry or type it falls back to direct.
// It has no fft. In exact mode all are direct, also where another is preferred: how the
// library divides the sums of the others may depend on the number of threads.

#include "ops/nn/conv.h"

#include "backend/cpu/conv_parts.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/isa.h"
#include "ops/ops.h"

#include <omp.h>

enum { LEAST_CHANNELS = 16, LEAST_TILES = 24 };

static void release(void *state)
{
    tt__prim_destroy(state);
}

// Inputs that lie in a layout come from this library too.
static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__cpu_is_fast(site->in[0].dtype);
}

// ---- what is asked ----

bool tt__window_of(const tt_slide slide[TT_MAX_SPATIAL], int n,
                   tt__conv_window *window_out)
{
    *window_out = (tt__conv_window){.n = n};
    for (int d = 0; d < n; d++) {
        const tt_slide *s = &slide[TT_MAX_SPATIAL - n + d];
        const int64_t reach = (s->kernel - 1) * s->dilation + 1;
        const int64_t hi = (s->out - 1) * s->stride + reach - s->in - s->pad;
        if (s->pad < 0 || hi <= -s->stride)
            return false;
        window_out->kernel[d] = s->kernel;
        window_out->stride[d] = s->stride;
        window_out->dilation[d] = s->dilation;
        window_out->pad_lo[d] = s->pad;
        window_out->pad_hi[d] = hi > 0 ? hi : 0;
    }
    return true;
}

// Whether Winograd's algorithm F(4x4, 3x3) is faster. It needs enough tiles of 4 x 4
// results, tiles that are at least half full, and channels that fill vectors.
static bool suits_winograd(const tt__cpu_conv_desc *d)
{
    if (d->x.dtype != TT_F32 || d->x.ndim != 4 || d->w.ndim != 4)
        return false;
    int64_t tiles = d->y.dims[0], results = d->y.dims[0];
    for (int i = 0; i < 2; i++) {
        if (d->window.kernel[i] != 3 || d->window.stride[i] != 1 ||
            d->window.dilation[i] != 1)
            return false;
        tiles *= (d->y.dims[2 + i] + 3) / 4;
        results *= d->y.dims[2 + i];
    }
    return d->x.dims[1] >= LEAST_CHANNELS && d->y.dims[1] >= LEAST_CHANNELS &&
           tiles >= LEAST_TILES && results >= 8 * tiles;
}

// oneDNN 2.6 has a bug: its Winograd gives wrong gradients of inputs where the padding
// differs above and below. It does when the image is split over ranks: at the seam a
// neighbour's rows take the place of padding.
static bool is_padded_evenly(const tt__conv_window *w)
{
    for (int i = 0; i < w->n; i++)
        if (w->pad_lo[i] != w->pad_hi[i])
            return false;
    return true;
}

static tt__conv_kind kind_of(const tt_backend *backend, const tt_conv_params *p,
                             const tt__cpu_conv_desc *d)
{
    if (backend->options.exact)
        return TT__CONV_DIRECT;
    if (d->way == TT__GRAD_X && !is_padded_evenly(&d->window) &&
        p->algorithm != TT_CONV_IM2COL)
        return TT__CONV_DIRECT;
    switch ((tt_conv_algorithm)p->algorithm) {
    case TT_CONV_IM2COL:
        return TT__CONV_GEMM;
    case TT_CONV_WINOGRAD:
        return TT__CONV_WINOGRAD;
    case TT_CONV_AUTO:
        return suits_winograd(d) ? TT__CONV_WINOGRAD : TT__CONV_DIRECT;
    default:
        return TT__CONV_DIRECT;
    }
}

tt_status tt__cpu_conv_describe(const tt_backend *backend,
                                const tt_conv_params *p, const tt_operand *x,
                                const tt_operand *w, const tt_operand *y,
                                tt__cpu_conv_desc *d)
{
    const tt_conv_geometry g =
        tt_conv_geometry_of(p, &x->local, &w->local, &y->local);
    d->x = tt__dnnl_tensor_any(x);
    d->w = tt__dnnl_tensor_any(w);
    d->y = tt__dnnl_tensor_any(y);
    if (g.groups > 1)
        tt__dnnl_tensor_group(&d->w, g.groups);
    if (!tt__window_of(g.slide, d->x.ndim - 2, &d->window))
        return TT_ERR_UNSUPPORTED;
    d->kind = kind_of(backend, p, d);
    return TT_OK;
}

tt_status tt__cpu_conv_create(tt_backend *backend, tt__cpu_conv_desc *d,
                              tt__prim **prim_out)
{
    tt__dnnl *dnnl = tt__cpu_dnnl(backend);
    tt_status status = tt__prim_conv(dnnl, d, prim_out);
    if (status == TT_ERR_UNSUPPORTED && d->kind != TT__CONV_DIRECT) {
        d->kind = TT__CONV_DIRECT;
        status = tt__prim_conv(dnnl, d, prim_out);
    }
    return status;
}

// Below AVX2 the library computes convolutions as matrix products and shares the sums
// among its threads. In exact mode one thread does them all.
static bool is_serial(const tt_backend *backend)
{
    return backend->options.exact && tt_isa_used() < TT_ISA_V3;
}

static tt_status run_prim(tt__prim *prim, const void *const *data,
                          void *scratch)
{
    const int before = omp_get_max_threads();
    if (tt__prim_is_serial(prim))
        omp_set_num_threads(1);
    const tt_status status = tt__prim_run(prim, data, scratch);
    if (tt__prim_is_serial(prim))
        omp_set_num_threads(before);
    return status;
}

static tt_status finish(tt__prim *prim, tt_prepared *prepared_out)
{
    prepared_out->state = prim;
    prepared_out->scratch_bytes = tt__prim_scratch_bytes(prim);
    return TT_OK;
}

// ---- conv ----

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    tt__cpu_conv_desc d = {.way = TT__FORWARD, .is_serial = is_serial(backend)};
    tt__prim *prim = NULL;
    TT_TRY(tt__cpu_conv_describe(backend, site->params, &site->in[0],
                                 &site->in[1], &site->out[0], &d));
    if (tt_site_has(site, 2)) {
        tt_operand_set_dense(&site->in[2]);
        d.bias = tt__dnnl_tensor_of(&site->in[2]);
    }
    TT_TRY(tt__cpu_conv_create(backend, &d, &prim));
    tt__operand_set_layout(&site->in[0], tt__prim_layout(prim, TT__X));
    tt__operand_set_layout(&site->in[1], tt__prim_layout(prim, TT__W));
    tt__operand_set_layout(&site->out[0], tt__prim_layout(prim, TT__Y));
    return finish(prim, prepared_out);
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    const void *data[] = {args->in[0], args->in[1],
                          tt_site_has(site, 2) ? args->in[2] : NULL,
                          args->out[0]};
    return run_prim(state, data, args->scratch);
}

// ---- conv_grad_x(dy, w, ~x) ----

static tt_status prepare_grad_x(tt_backend *backend, tt_site *site,
                                tt_prepared *prepared_out)
{
    tt__cpu_conv_desc d = {.way = TT__GRAD_X, .is_serial = is_serial(backend)};
    tt__prim *prim = NULL;
    TT_TRY(tt__cpu_conv_describe(backend, site->params, &site->out[0],
                                 &site->in[1], &site->in[0], &d));
    TT_TRY(tt__cpu_conv_create(backend, &d, &prim));
    tt__operand_set_layout(&site->in[0], tt__prim_layout(prim, TT__Y));
    tt__operand_set_layout(&site->in[1], tt__prim_layout(prim, TT__W));
    tt__operand_set_layout(&site->out[0], tt__prim_layout(prim, TT__X));
    return finish(prim, prepared_out);
}

static tt_status run_grad_x(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)site;
    const void *data[] = {args->out[0], args->in[1], NULL, args->in[0]};
    return run_prim(state, data, args->scratch);
}

const tt_kernel_def tt__cpu_conv_kernels[] = {
    {TT_KERNEL(cpu, conv), .can = can, .prepare = prepare, .run = run,
     .release = release},
    {TT_KERNEL(cpu, conv_grad_x), .can = can, .prepare = prepare_grad_x,
     .run = run_grad_x, .release = release},
    {0},
};
