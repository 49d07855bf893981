// codec - the codecs on the device; what bounds each is said beside its kernel.

#include "ops/codec/codec.h"

#include "backend/cuda/cuda.h"
#include "base/rng.h"
#include "ops/ops.h"

#include <string.h>

// ---- quantize, onebit ----------------------------------------------------

static bool can_quantize(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "sI", "fu") && site->in[0].local.gap == 0;
}

static bool can_onebit(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "s", "fu");
}

static bool can_decode(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    const tt_dtype y = site->out[0].dtype;
    return tt__site_is_plain(site) && site->in[0].dtype == TT_F32 &&
           (y == TT_F32 || y == TT_BF16 || y == TT_F16);
}

static tt_cuda_codec_args encoding(const tt_site *site, const tt_args *args)
{
    return (tt_cuda_codec_args){.type = site->in[0].dtype,
                                .n = tt_operand_count(&site->in[0]),
                                .x = args->in[0],
                                .scale_out = args->out[0],
                                .code_out = args->out[1]};
}

static tt_cuda_codec_args decoding(const tt_site *site, const tt_args *args)
{
    return (tt_cuda_codec_args){.type = site->out[0].dtype,
                                .n = tt_operand_count(&site->out[0]),
                                .y = args->out[0],
                                .scale = args->in[0],
                                .code = args->in[1]};
}

static tt_status run_quantize(void *state, const tt_site *site,
                              const tt_args *args)
{
    const tt_quantize_params *p = site->params;
    const tt_local *x = &site->in[0].local;
    tt_cuda_codec_args a = encoding(site, args);
    a.bits = (int)p->bits;
    a.block = p->block;
    if (site->n_in > 2) {
        a.seed = args->in[1];
        a.step = args->in[2];
        a.origin_hash = tt_hash(site->origin, (int64_t)strlen(site->origin));
    }
    a.n_factors = x->shape.n_factors;
    for (int f = 0; f < a.n_factors; f++) {
        a.size[f] = x->shape.factor[f].size;
        a.origin[f] = x->origin[f];
        a.global[f] = x->global[f];
    }
    return TT__CUDA(state, quantize, &a);
}

static tt_status run_dequantize(void *state, const tt_site *site,
                                const tt_args *args)
{
    const tt_quantize_params *p = site->params;
    tt_cuda_codec_args a = decoding(site, args);
    a.bits = (int)p->bits;
    a.block = p->block;
    return TT__CUDA(state, dequantize, &a);
}

static tt_status run_onebit(void *state, const tt_site *site,
                            const tt_args *args)
{
    const tt_onebit_params *p = site->params;
    tt_cuda_codec_args a = encoding(site, args);
    a.block = p->block;
    return TT__CUDA(state, onebit, &a);
}

static tt_status run_onebit_decode(void *state, const tt_site *site,
                                   const tt_args *args)
{
    const tt_onebit_params *p = site->params;
    tt_cuda_codec_args a = decoding(site, args);
    a.block = p->block;
    return TT__CUDA(state, onebit_decode, &a);
}

// ---- topk ----------------------------------------------------------------

static bool can_topk(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "s", "si");
}

static bool can_topk_decode(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "si", "s");
}

static tt_status prepare_topk(tt_backend *backend, tt_site *site,
                              tt_prepared *prepared_out)
{
    TT_TRY(tt__cuda_prepare(backend, site, prepared_out));
    prepared_out->scratch_bytes =
        tt__cuda_of(backend)->api->topk_scratch(tt_operand_count(&site->in[0]));
    return TT_OK;
}

static tt_status run_topk(void *state, const tt_site *site, const tt_args *args)
{
    const tt_cuda_topk_args a = {.type = site->in[0].dtype,
                                 .n = tt_operand_count(&site->in[0]),
                                 .k = tt_operand_count(&site->out[0]),
                                 .x = args->in[0],
                                 .y = args->out[0],
                                 .place_out = args->out[1],
                                 .scratch = args->scratch};
    return TT__CUDA(state, topk, &a);
}

static tt_status run_topk_decode(void *state, const tt_site *site,
                                 const tt_args *args)
{
    const tt_cuda_topk_args a = {.type = site->out[0].dtype,
                                 .n = tt_operand_count(&site->out[0]),
                                 .k = tt_operand_count(&site->in[0]),
                                 .x = args->in[0],
                                 .place = args->in[1],
                                 .y = args->out[0]};
    return TT__CUDA(state, topk_decode, &a);
}

// ---- orthogonalize -------------------------------------------------------

static bool can_orthogonalize(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "s", "s");
}

static tt_status prepare_orthogonalize(tt_backend *backend, tt_site *site,
                                       tt_prepared *prepared_out)
{
    TT_TRY(tt__cuda_prepare(backend, site, prepared_out));
    prepared_out->scratch_bytes =
        tt_operand_count(&site->in[0]) * (int64_t)sizeof(double);
    return TT_OK;
}

static tt_status run_orthogonalize(void *state, const tt_site *site,
                                   const tt_args *args)
{
    const tt_cuda_orthogonalize_args a = {
        .type = site->in[0].dtype,
        .rows = tt_operand_dim(&site->in[0], 0),
        .cols = tt_operand_dim(&site->in[0], 1),
        .x = args->in[0],
        .y = args->out[0],
        .scratch = args->scratch};
    return TT__CUDA(state, orthogonalize, &a);
}

const tt_kernel_def tt__cuda_codec_kernels[] = {
    {TT__CUDA_KERNEL(quantize), .can = can_quantize, .run = run_quantize},
    {TT__CUDA_KERNEL(dequantize), .can = can_decode, .run = run_dequantize},
    {TT__CUDA_KERNEL(onebit), .can = can_onebit, .run = run_onebit},
    {TT__CUDA_KERNEL(onebit_decode), .can = can_decode,
     .run = run_onebit_decode},
    {TT_KERNEL(cuda, topk), .can = can_topk, .prepare = prepare_topk,
     .run = run_topk},
    {TT__CUDA_KERNEL(topk_decode), .can = can_topk_decode,
     .run = run_topk_decode},
    {TT_KERNEL(cuda, orthogonalize), .can = can_orthogonalize,
     .prepare = prepare_orthogonalize, .run = run_orthogonalize},
    {0},
};
