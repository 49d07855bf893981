// codes - the codecs that replicas send, on the device: in blocks, in 16 bits, at random
// places. Those that pick entries are in codes_picked.c, those of unknown length in
// codes_entropy.c. Tensors are f32; others are the reference's. Codes have the CPU's bits.

#include "ops/codec/codes.h"

#include "backend/cuda/cuda.h"
#include "base/rng.h"
#include "ops/codec/narrow.h"
#include "ops/codec/sparse.h"
#include "ops/comm/replicas.h"
#include "ops/ops.h"

#include <string.h>

static uint64_t hash_of(const char *text)
{
    return tt_hash(text, (int64_t)strlen(text));
}

// ---- blocks --------------------------------------------------------------

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

static tt_cuda_code code_of(tt_packet_kind kind)
{
    switch (kind) {
    case TT_PACKET_INT8:
        return TT_CUDA_INT8;
    case TT_PACKET_ONEBIT:
        return TT_CUDA_ONEBIT;
    case TT_PACKET_SIGN:
        return TT_CUDA_SIGN;
    case TT_PACKET_TWOBIT:
        return TT_CUDA_TWOBIT;
    case TT_PACKET_TERNARY:
        return TT_CUDA_TERNARY;
    default:
        return TT_CUDA_NATURAL;
    }
}

static tt_cuda_packet packet_of(const tt_site *site, int64_t n)
{
    const tt_packet_form *form = site->op->family;
    const int64_t body = tt_packet_body(form, site->params, n, TT_F32);
    return (tt_cuda_packet){.magic = tt_packet_magic(form->kind),
                            .options = tt_code_digest(site->params),
                            .n = n,
                            .body = body,
                            .capacity = tt_packet_capacity(body)};
}

static int64_t peers_of(const tt_site *site)
{
    const int64_t n = tt_operand_count(&site->out[0]);
    return tt_operand_count(&site->in[TT_PSUM_PACKETS]) /
           packet_of(site, n).capacity;
}

static tt_status prepare_encode(tt_backend *backend, tt_site *site,
                                tt_prepared *prepared_out)
{
    prepared_out->scratch_bytes = (int64_t)sizeof(uint32_t);
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_status prepare_sum(tt_backend *backend, tt_site *site,
                             tt_prepared *prepared_out)
{
    prepared_out->scratch_bytes = peers_of(site) * (int64_t)sizeof(uint32_t);
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_status run_encode(void *state, const tt_site *site,
                            const tt_args *args)
{
    const tt_packet_form *form = site->op->family;
    const tt_code_params *p = site->params;
    const bool has_residual = tt_site_has(site, TT_PRESIDUAL);
    const bool is_random =
        tt_site_has(site, TT_PSEED) && tt_site_has(site, TT_PSTEP);
    const tt_cuda_code_args a = {
        .code = code_of(form->kind),
        .packet = packet_of(site, tt_operand_count(&site->in[TT_PX])),
        .block = p->block,
        .threshold = (float)p->threshold,
        .seed = is_random ? args->in[TT_PSEED] : NULL,
        .step = is_random ? args->in[TT_PSTEP] : NULL,
        .origin_hash = is_random ? hash_of(site->origin) : 0,
        .x = args->in[TT_PX],
        .residual = has_residual ? args->in[TT_PRESIDUAL] : NULL,
        .left = has_residual ? args->out[1] : NULL,
        .out = args->out[0],
        .scratch = args->scratch};
    return TT__CUDA(state, code_encode, &a);
}

static tt_status run_sum(void *state, const tt_site *site, const tt_args *args)
{
    const tt_packet_form *form = site->op->family;
    const tt_code_params *p = site->params;
    const tt_cuda_code_sum_args a = {
        .code = code_of(form->kind),
        .packet = packet_of(site, tt_operand_count(&site->out[0])),
        .block = p->block,
        .peers = peers_of(site),
        .packets = args->in[TT_PSUM_PACKETS],
        .y = args->out[0],
        .scratch = args->scratch};
    return TT__CUDA(state, code_sum, &a);
}

// ---- 16 bits -------------------------------------------------------------

static bool can_narrow(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_is_plain(site) && site->in[0].dtype == TT_F32;
}

static bool can_widen(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_is_plain(site) && site->out[0].dtype == TT_F32;
}

static tt_status run_narrow(void *state, const tt_site *site,
                            const tt_args *args)
{
    const tt_narrow_params *p = site->params;
    const bool has_residual = tt_site_has(site, TT_NARROW_RESIDUAL);
    const tt_cuda_narrow_args a = {
        .n = tt_operand_count(&site->in[TT_NARROW_X]),
        .is_half = site->out[0].dtype == TT_F16,
        .scale = (float)p->scale,
        .limit = tt_narrow_limit(p),
        .x = args->in[TT_NARROW_X],
        .residual = has_residual ? args->in[TT_NARROW_RESIDUAL] : NULL,
        .left = has_residual ? args->out[1] : NULL,
        .code_out = args->out[0]};
    return TT__CUDA(state, narrow, &a);
}

static tt_status run_widen(void *state, const tt_site *site,
                           const tt_args *args)
{
    const tt_narrow_params *p = site->params;
    const tt_cuda_narrow_args a = {.n = tt_operand_count(&site->out[0]),
                                   .is_half = site->in[0].dtype == TT_F16,
                                   .scale = (float)p->scale,
                                   .code = args->in[0],
                                   .y = args->out[0]};
    return TT__CUDA(state, widen, &a);
}

// ---- randomk -------------------------------------------------------------

static bool can_take(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ffII", "ff");
}

static bool can_put(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "fIIf", "f");
}

static tt_status run_take(void *state, const tt_site *site, const tt_args *args)
{
    const bool has_residual = tt_site_has(site, TT_RK_RESIDUAL);
    const tt_cuda_randomk_args a = {
        .n = tt_operand_count(&site->in[TT_RK_X]),
        .k = tt_operand_count(&site->out[0]),
        .seed = args->in[TT_RK_SEED],
        .step = args->in[TT_RK_STEP],
        .origin_hash = hash_of("randomk"),
        .x = args->in[TT_RK_X],
        .residual = has_residual ? args->in[TT_RK_RESIDUAL] : NULL,
        .left = has_residual ? args->out[1] : NULL,
        .value_out = args->out[0]};
    return TT__CUDA(state, randomk_take, &a);
}

static tt_status run_put(void *state, const tt_site *site, const tt_args *args)
{
    const tt_cuda_randomk_args a = {
        .n = tt_operand_count(&site->out[0]),
        .k = tt_operand_count(&site->in[TT_RP_VALUES]),
        .seed = args->in[TT_RP_SEED],
        .step = args->in[TT_RP_STEP],
        .origin_hash = hash_of("randomk"),
        .value = args->in[TT_RP_VALUES],
        .y = args->out[0]};
    return TT__CUDA(state, randomk_put, &a);
}

// ---- seeds ---------------------------------------------------------------

// Replicas of a rank are neighbours.
static bool can_seed(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "I", "I") && site->out[0].local.gap == 0;
}

static tt_status run_seed(void *state, const tt_site *site, const tt_args *args)
{
    const tt_replica_seed_params *p = site->params;
    const tt_cuda_seed_args a = {.n = tt_operand_count(&site->out[0]),
                                 .first = site->out[0].local.origin[0],
                                 .salt = p->salt,
                                 .is_same = p->replicas <= 0,
                                 .seed = args->in[0],
                                 .out = args->out[0]};
    return TT__CUDA(state, seeds, &a);
}

#define ENCODER(op)                                                            \
    {                                                                          \
        TT_KERNEL(cuda, op), .can = can_encode, .prepare = prepare_encode,     \
                             .run = run_encode                                 \
    }
#define SUM(op)                                                                \
    {                                                                          \
        TT_KERNEL(cuda, op), .can = can_sum, .prepare = prepare_sum,           \
                             .run = run_sum                                    \
    }

const tt_kernel_def tt__cuda_codes_kernels[] = {
    ENCODER(int8_encode),
    SUM(int8_sum),
    ENCODER(onebit_encode),
    SUM(onebit_sum),
    ENCODER(sign_encode),
    SUM(sign_sum),
    ENCODER(twobit_encode),
    SUM(twobit_sum),
    ENCODER(ternary_encode),
    SUM(ternary_sum),
    ENCODER(natural_encode),
    SUM(natural_sum),
    {TT__CUDA_KERNEL(narrow), .can = can_narrow, .run = run_narrow},
    {TT__CUDA_KERNEL(widen), .can = can_widen, .run = run_widen},
    {TT__CUDA_KERNEL(randomk_take), .can = can_take, .run = run_take},
    {TT__CUDA_KERNEL(randomk_put), .can = can_put, .run = run_put},
    {TT__CUDA_KERNEL(replica_seed), .can = can_seed, .run = run_seed},
    {0},
};
