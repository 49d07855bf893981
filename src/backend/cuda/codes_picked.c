// codes_picked - the codecs that pick entries (ops/codec/sparse.h), on the device. Tensors
// are f32; others are the reference's. Codes have the CPU's bits.

#include "backend/cuda/cuda.h"
#include "ops/codec/sparse.h"
#include "ops/ops.h"

#include <float.h>
#include <math.h>
#include <string.h>

static bool can_encode(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ffII", "uf");
}

static bool can_gather(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "fffI", "uff");
}

static bool can_sum(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "uf", "f");
}

static tt_cuda_packet packet_of(tt_packet_kind kind, int64_t n, int64_t body)
{
    return (tt_cuda_packet){.magic = tt_packet_magic(kind),
                            .n = n,
                            .body = body,
                            .capacity = tt_packet_capacity(body),
                            .is_long = true};
}

static tt_cuda_packet packet_at(const tt_site *site, int64_t n)
{
    const tt_packet_form *form = site->op->family;
    return packet_of(tt_packet_kind_of(form, site->params), n,
                     tt_packet_body(form, site->params, n, TT_F32));
}

static int64_t peers_of(const tt_site *site)
{
    const int64_t n = tt_operand_count(&site->out[0]);
    return tt_operand_count(&site->in[TT_PSUM_PACKETS]) /
           packet_at(site, n).capacity;
}

static tt_status prepare_pick(tt_backend *backend, tt_site *site,
                              tt_prepared *prepared_out)
{
    prepared_out->scratch_bytes =
        tt_cuda_pick_scratch(tt_operand_count(&site->in[TT_PX]));
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_status prepare_sum(tt_backend *backend, tt_site *site,
                             tt_prepared *prepared_out)
{
    prepared_out->scratch_bytes = peers_of(site) * (int64_t)sizeof(uint32_t);
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_cuda_pick_args start(const tt_site *site, const tt_args *args)
{
    const int64_t n = tt_operand_count(&site->in[TT_PX]);
    const bool has_residual = tt_site_has(site, TT_PRESIDUAL);
    return (tt_cuda_pick_args){.packet = packet_at(site, n),
                               .k = n,
                               .x = args->in[TT_PX],
                               .residual =
                                   has_residual ? args->in[TT_PRESIDUAL] : NULL,
                               .left = has_residual ? args->out[1] : NULL,
                               .out = args->out[0],
                               .scratch = args->scratch};
}

static tt_status run_topk(void *state, const tt_site *site, const tt_args *args)
{
    const tt_sparse_params *p = site->params;
    tt_cuda_pick_args a = start(site, args);
    a.k = tt_sparse_count(p->ratio, a.packet.n);
    return TT__CUDA(state, pick, &a);
}

// What is not zero has a bit at least.
static tt_status run_nonzero(void *state, const tt_site *site,
                             const tt_args *args)
{
    tt_cuda_pick_args a = start(site, args);
    a.least = 1;
    return TT__CUDA(state, pick, &a);
}

static tt_status run_threshold(void *state, const tt_site *site,
                               const tt_args *args)
{
    const tt_sparse_params *p = site->params;
    const float tau = (float)p->tau, least = tau >= FLT_MIN ? tau : FLT_MIN;
    tt_cuda_pick_args a = start(site, args);
    a.k = tt_sparse_count(p->ratio, a.packet.n);
    a.is_threshold = true;
    a.has_values = p->has_values;
    a.is_relative = p->tau <= 0;
    a.relative = p->relative;
    memcpy(&a.least, &least, sizeof least);
    return TT__CUDA(state, pick, &a);
}

static tt_status run_dgc(void *state, const tt_site *site, const tt_args *args)
{
    const tt_sparse_params *p = site->params;
    const int64_t n = tt_operand_count(&site->in[TT_DGC_X]);
    const int64_t most = tt_dgc_most(p, n);
    const tt_cuda_dgc_args a = {
        .packet = packet_of(TT_PACKET_SPARSE, n, tt_sparse_body(most, 4)),
        .most = most,
        .warm_up = tt_dgc_warm_up(p),
        .ratio = p->ratio,
        .start = p->start,
        .factor = tt_dgc_factor(p),
        .norm = p->clip / sqrt((double)p->peers),
        .momentum = (float)p->momentum,
        .step = args->in[TT_DGC_STEP],
        .x = args->in[TT_DGC_X],
        .u = args->in[TT_DGC_U],
        .v = args->in[TT_DGC_V],
        .u_out = args->out[TT_DGC_U_OUT],
        .v_out = args->out[TT_DGC_V_OUT],
        .out = args->out[TT_DGC_CODE],
        .scratch = args->scratch};
    return TT__CUDA(state, dgc, &a);
}

static tt_status run_sum(void *state, const tt_site *site, const tt_args *args)
{
    const tt_packet_form *form = site->op->family;
    const tt_cuda_list_sum_args a = {
        .packet = packet_at(site, tt_operand_count(&site->out[0])),
        .is_threshold =
            tt_packet_kind_of(form, site->params) == TT_PACKET_THRESHOLD,
        .peers = peers_of(site),
        .packets = args->in[TT_PSUM_PACKETS],
        .y = args->out[0],
        .scratch = args->scratch};
    return TT__CUDA(state, list_sum, &a);
}

#define ENCODER(op, can_, run_)                                                \
    {                                                                          \
        TT_KERNEL(cuda, op), .can = (can_), .prepare = prepare_pick,           \
                             .run = (run_)                                     \
    }
#define SUM(op)                                                                \
    {                                                                          \
        TT_KERNEL(cuda, op), .can = can_sum, .prepare = prepare_sum,           \
                             .run = run_sum                                    \
    }

const tt_kernel_def tt__cuda_codes_picked_kernels[] = {
    ENCODER(topk_encode, can_encode, run_topk),
    SUM(topk_sum),
    ENCODER(nonzero_encode, can_encode, run_nonzero),
    SUM(nonzero_sum),
    ENCODER(threshold_encode, can_encode, run_threshold),
    SUM(threshold_sum),
    ENCODER(dgc_encode, can_gather, run_dgc),
    {0},
};
