// codes_entropy - the codecs whose codes have a length that depends on the numbers
// (ops/codec/entropy.h), on the device. Tensors are f32; others are the reference's. Codes
// have the CPU's bits.

#include "backend/cuda/cuda.h"
#include "base/rng.h"
#include "ops/codec/entropy.h"
#include "ops/ops.h"

#include <string.h>

static bool can_encode(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ffII", "uf");
}

static bool can_sum(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "uf", "f");
}

static tt_cuda_packet packet_of(const tt_site *site, int64_t n)
{
    const tt_packet_form *form = site->op->family;
    const int64_t body = tt_packet_body(form, site->params, n, TT_F32);
    return (tt_cuda_packet){.magic = tt_packet_magic(form->kind),
                            .options = tt_code_digest(site->params),
                            .n = n,
                            .body = body,
                            .capacity = tt_packet_capacity(body),
                            .is_long = true};
}

static int64_t peers_of(const tt_site *site)
{
    const int64_t n = tt_operand_count(&site->out[0]);
    return tt_operand_count(&site->in[TT_PSUM_PACKETS]) /
           packet_of(site, n).capacity;
}

// qsgd: the size of each block, and levels. 3lc: two numbers of each tile, and bytes.
static int64_t scratch_of(const tt_site *site, int64_t peers, int64_t n)
{
    const tt_packet_form *form = site->op->family;
    const tt_code_params *p = site->params;
    const int64_t bytes = tt_code_digits_bytes(p, TT_THREELC_PER_BYTE, n);
    if (form->kind == TT_PACKET_THREELC)
        return tt_cuda_entropy_scratch(peers, bytes / TT_CUDA_TILE + 1, 2,
                                       bytes);
    return tt_cuda_entropy_scratch(peers, tt_code_blocks(p, n), 1, n);
}

static tt_status prepare_encode(tt_backend *backend, tt_site *site,
                                tt_prepared *prepared_out)
{
    prepared_out->scratch_bytes =
        scratch_of(site, 1, tt_operand_count(&site->in[TT_PX]));
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_status prepare_sum(tt_backend *backend, tt_site *site,
                             tt_prepared *prepared_out)
{
    prepared_out->scratch_bytes =
        scratch_of(site, peers_of(site), tt_operand_count(&site->out[0]));
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_cuda_entropy_args encoding(const tt_site *site, const tt_args *args)
{
    const tt_code_params *p = site->params;
    const bool has_residual = tt_site_has(site, TT_PRESIDUAL);
    return (tt_cuda_entropy_args){
        .packet = packet_of(site, tt_operand_count(&site->in[TT_PX])),
        .block = p->block,
        .x = args->in[TT_PX],
        .residual = has_residual ? args->in[TT_PRESIDUAL] : NULL,
        .left = has_residual ? args->out[1] : NULL,
        .out = args->out[0],
        .scratch = args->scratch};
}

static tt_cuda_entropy_sum_args summing(const tt_site *site,
                                        const tt_args *args)
{
    const tt_code_params *p = site->params;
    return (tt_cuda_entropy_sum_args){
        .packet = packet_of(site, tt_operand_count(&site->out[0])),
        .block = p->block,
        .peers = peers_of(site),
        .packets = args->in[TT_PSUM_PACKETS],
        .y = args->out[0],
        .scratch = args->scratch};
}

static tt_status run_qsgd(void *state, const tt_site *site, const tt_args *args)
{
    const tt_code_params *p = site->params;
    tt_cuda_entropy_args a = encoding(site, args);
    a.levels = (int)p->levels;
    a.bits = tt_qsgd_bits(p);
    a.shrink = tt_qsgd_shrink(p);
    a.seed = args->in[TT_PSEED];
    a.step = args->in[TT_PSTEP];
    a.origin_hash = tt_hash(site->origin, (int64_t)strlen(site->origin));
    return TT__CUDA(state, qsgd, &a);
}

static tt_status run_qsgd_sum(void *state, const tt_site *site,
                              const tt_args *args)
{
    const tt_code_params *p = site->params;
    tt_cuda_entropy_sum_args a = summing(site, args);
    a.levels = (int)p->levels;
    a.bits = tt_qsgd_bits(p);
    return TT__CUDA(state, qsgd_sum, &a);
}

static tt_status run_threelc(void *state, const tt_site *site,
                             const tt_args *args)
{
    const tt_code_params *p = site->params;
    tt_cuda_entropy_args a = encoding(site, args);
    a.sparsity = (float)p->sparsity;
    return TT__CUDA(state, threelc, &a);
}

static tt_status run_threelc_sum(void *state, const tt_site *site,
                                 const tt_args *args)
{
    const tt_cuda_entropy_sum_args a = summing(site, args);
    return TT__CUDA(state, threelc_sum, &a);
}

const tt_kernel_def tt__cuda_codes_entropy_kernels[] = {
    {TT_KERNEL(cuda, qsgd_encode), .can = can_encode, .prepare = prepare_encode,
     .run = run_qsgd},
    {TT_KERNEL(cuda, qsgd_sum), .can = can_sum, .prepare = prepare_sum,
     .run = run_qsgd_sum},
    {TT_KERNEL(cuda, threelc_encode), .can = can_encode,
     .prepare = prepare_encode, .run = run_threelc},
    {TT_KERNEL(cuda, threelc_sum), .can = can_sum, .prepare = prepare_sum,
     .run = run_threelc_sum},
    {0},
};
