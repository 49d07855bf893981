// code - kernels of codecs: packets around what the vectorised functions write and read.
// Tensors of other types than f32 are the reference's.

#include "backend/cpu/wrap.h"
#include "backend/ref/code/packets.h"
#include "base/rng.h"
#include "ops/codec/codes.h"
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

static tt_status encode(const tt_site *site, const tt_args *args,
                        void (*run)(const tt_simd_code_args *a))
{
    const tt_packet_form *form = site->op->family;
    const tt_code_params *p = site->params;
    const int64_t n = tt_operand_count(&site->in[TT_PX]);
    const bool has_residual = tt_site_has(site, TT_PRESIDUAL);
    unsigned char *packet = args->out[0], *body = packet + TT_PACKET_HEADER;
    const int64_t bytes = tt_packet_body(form, p, n, TT_F32);
    const tt_packet about = {.kind = form->kind,
                             .options = tt_code_digest(p),
                             .n = n,
                             .capacity = tt_operand_count(&site->out[0])};
    const tt_simd_code_args a = {
        .n = n,
        .block = p->block,
        .key = tt__packet_key(site, args),
        .threshold = (float)p->threshold,
        .x = args->in[TT_PX],
        .residual = has_residual ? args->in[TT_PRESIDUAL] : NULL,
        .left = has_residual ? args->out[1] : NULL,
        .body = body,
    };
    run(&a);
    memset(body + bytes, 0,
           (size_t)(about.capacity - TT_PACKET_HEADER - bytes));
    tt_packet_close(&about, packet, TT_PACKET_HEADER + bytes,
                    tt_simd_get()->code->hash(body, bytes));
    return TT_OK;
}

// All packets of a sum, looked at before any is used.
static tt_status open_all(const tt_site *site, const tt_args *args,
                          int64_t *peers_out)
{
    const char *op = site->op->name;
    const tt_packet_form *form = site->op->family;
    const int64_t n = tt_operand_count(&site->out[0]);
    const int64_t body = tt_packet_body(form, site->params, n, TT_F32);
    const tt_packet about = {.kind = form->kind,
                             .options = tt_code_digest(site->params),
                             .n = n,
                             .capacity = tt_packet_capacity(body)};
    const int64_t peers =
        tt_operand_count(&site->in[TT_PSUM_PACKETS]) / about.capacity;
    const char *packet = args->in[TT_PSUM_PACKETS];
    for (int64_t p = 0; p < peers; p++, packet += about.capacity) {
        int64_t bytes = 0;
        TT_TRY(tt_packet_open(&about, op, p, packet, &bytes));
        if (bytes != TT_PACKET_HEADER + body)
            return tt_packet_refuse(op, p);
        TT_TRY(tt_packet_check(
            &about, op, p, packet,
            tt_simd_get()->code->hash(packet + TT_PACKET_HEADER, body)));
    }
    *peers_out = peers;
    return TT_OK;
}

static tt_status sum(const tt_site *site, const tt_args *args,
                     void (*run)(const tt_simd_code_add *a))
{
    const tt_code_params *p = site->params;
    int64_t peers = 0;
    TT_TRY(open_all(site, args, &peers));
    tt_simd_code_add a = {.n = tt_operand_count(&site->out[0]),
                          .block = p->block,
                          .y = args->out[0],
                          .is_first = true};
    const int64_t capacity =
        tt_packet_capacity(tt_packet_body(site->op->family, p, a.n, TT_F32));
    for (int64_t r = 0; r < peers; r++, a.is_first = false) {
        a.body = (const unsigned char *)args->in[TT_PSUM_PACKETS] +
                 r * capacity + TT_PACKET_HEADER;
        run(&a);
    }
    return TT_OK;
}

static tt_status vote(const tt_site *site, const tt_args *args)
{
    const tt_code_params *p = site->params;
    tt_simd_code_vote a = {.n = tt_operand_count(&site->out[0]),
                           .block = p->block,
                           .y = args->out[0]};
    TT_TRY(open_all(site, args, &a.peers));
    a.stride =
        tt_packet_capacity(tt_packet_body(site->op->family, p, a.n, TT_F32));
    a.body =
        (const unsigned char *)args->in[TT_PSUM_PACKETS] + TT_PACKET_HEADER;
    tt_simd_get()->code->vote(&a);
    return TT_OK;
}

TT_KERNEL_RUN(run_int8, encode(site, args, tt_simd_get()->code->int8))
TT_KERNEL_RUN(run_int8_sum, sum(site, args, tt_simd_get()->code->int8_add))
TT_KERNEL_RUN(run_onebit, encode(site, args, tt_simd_get()->code->onebit))
TT_KERNEL_RUN(run_onebit_sum, sum(site, args, tt_simd_get()->code->onebit_add))
TT_KERNEL_RUN(run_twobit, encode(site, args, tt_simd_get()->code->twobit))
TT_KERNEL_RUN(run_twobit_sum, sum(site, args, tt_simd_get()->code->twobit_add))
TT_KERNEL_RUN(run_ternary, encode(site, args, tt_simd_get()->code->ternary))
TT_KERNEL_RUN(run_ternary_sum,
              sum(site, args, tt_simd_get()->code->ternary_add))
TT_KERNEL_RUN(run_natural, encode(site, args, tt_simd_get()->code->natural))
TT_KERNEL_RUN(run_natural_sum,
              sum(site, args, tt_simd_get()->code->natural_add))
TT_KERNEL_RUN(run_sign, encode(site, args, tt_simd_get()->code->sign))
TT_KERNEL_RUN(run_sign_sum, vote(site, args))

const tt_kernel_def tt__cpu_code_kernels[] = {
    {TT_KERNEL(cpu, int8_encode), .can = can_encode, .run = run_int8},
    {TT_KERNEL(cpu, int8_sum), .can = can_sum, .run = run_int8_sum},
    {TT_KERNEL(cpu, onebit_encode), .can = can_encode, .run = run_onebit},
    {TT_KERNEL(cpu, onebit_sum), .can = can_sum, .run = run_onebit_sum},
    {TT_KERNEL(cpu, twobit_encode), .can = can_encode, .run = run_twobit},
    {TT_KERNEL(cpu, twobit_sum), .can = can_sum, .run = run_twobit_sum},
    {TT_KERNEL(cpu, ternary_encode), .can = can_encode, .run = run_ternary},
    {TT_KERNEL(cpu, ternary_sum), .can = can_sum, .run = run_ternary_sum},
    {TT_KERNEL(cpu, natural_encode), .can = can_encode, .run = run_natural},
    {TT_KERNEL(cpu, natural_sum), .can = can_sum, .run = run_natural_sum},
    {TT_KERNEL(cpu, sign_encode), .can = can_encode, .run = run_sign},
    {TT_KERNEL(cpu, sign_sum), .can = can_sum, .run = run_sign_sum},
    {0},
};
