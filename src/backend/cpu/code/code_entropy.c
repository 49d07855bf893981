// code_entropy - kernels of codecs whose codes have a length that depends on the numbers.

#include "backend/cpu/wrap.h"
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

static tt_status run_threelc(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    const tt_code_params *p = site->params;
    const bool has_residual = tt_site_has(site, TT_PRESIDUAL);
    unsigned char *packet = args->out[0], *body = packet + TT_PACKET_HEADER;
    const tt_packet about = {.kind = TT_PACKET_THREELC,
                             .options = tt_code_digest(p),
                             .n = tt_operand_count(&site->in[TT_PX]),
                             .capacity = tt_operand_count(&site->out[0])};
    const tt_simd_code_args a = {
        .n = about.n,
        .block = p->block,
        .sparsity = (float)p->sparsity,
        .x = args->in[TT_PX],
        .residual = has_residual ? args->in[TT_PRESIDUAL] : NULL,
        .left = has_residual ? args->out[1] : NULL,
        .body = body,
    };
    const int64_t bytes = tt_simd_get()->code_entropy->threelc(&a);
    memset(body + bytes, 0,
           (size_t)(about.capacity - TT_PACKET_HEADER - bytes));
    tt_packet_close(&about, packet, TT_PACKET_HEADER + bytes,
                    tt_simd_get()->code->hash(body, bytes));
    return TT_OK;
}

static tt_status run_threelc_sum(void *state, const tt_site *site,
                                 const tt_args *args)
{
    (void)state;
    const tt_code_params *p = site->params;
    const char *op = site->op->name;
    const int64_t n = tt_operand_count(&site->out[0]);
    const tt_packet about = {.kind = TT_PACKET_THREELC,
                             .options = tt_code_digest(p),
                             .n = n,
                             .capacity = tt_packet_capacity(tt_packet_body(
                                 &tt_form_threelc, p, n, TT_F32))};
    const int64_t peers =
        tt_operand_count(&site->in[TT_PSUM_PACKETS]) / about.capacity;
    const unsigned char *packet = args->in[TT_PSUM_PACKETS];
    for (int64_t r = 0; r < peers; r++, packet += about.capacity) {
        tt_simd_code_add a = {.n = n,
                              .block = p->block,
                              .body = packet + TT_PACKET_HEADER,
                              .y = args->out[0],
                              .is_first = r == 0};
        TT_TRY(tt_packet_open(&about, op, r, packet, &a.bytes));
        a.bytes -= TT_PACKET_HEADER;
        TT_TRY(tt_packet_check(&about, op, r, packet,
                               tt_simd_get()->code->hash(a.body, a.bytes)));
        if (!tt_simd_get()->code_entropy->threelc_add(&a))
            return tt_packet_refuse(op, r);
    }
    return TT_OK;
}

const tt_kernel_def tt__cpu_code_entropy_kernels[] = {
    {TT_KERNEL(cpu, threelc_encode), .can = can_encode, .run = run_threelc},
    {TT_KERNEL(cpu, threelc_sum), .can = can_sum, .run = run_threelc_sum},
    {0},
};
