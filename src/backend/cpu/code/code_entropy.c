// code_entropy - kernels of codecs whose codes have a length that depends on the numbers.

#include "backend/cpu/wrap.h"
#include "backend/ref/code/packets.h"
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

static tt_status encode(const tt_site *site, const tt_args *args,
                        int64_t (*run)(const tt_simd_code_args *a))
{
    const tt_packet_form *form = site->op->family;
    const tt_code_params *p = site->params;
    const bool has_residual = tt_site_has(site, TT_PRESIDUAL);
    unsigned char *packet = args->out[0], *body = packet + TT_PACKET_HEADER;
    const tt_packet about = {.kind = form->kind,
                             .options = tt_code_digest(p),
                             .n = tt_operand_count(&site->in[TT_PX]),
                             .capacity = tt_operand_count(&site->out[0])};
    const tt_simd_code_args a = {
        .n = about.n,
        .block = p->block,
        .key = tt__packet_key(site, args),
        .sparsity = (float)p->sparsity,
        .shrink = form->kind == TT_PACKET_QSGD ? tt_qsgd_shrink(p) : 1,
        .levels = (int)p->levels,
        .x = args->in[TT_PX],
        .residual = has_residual ? args->in[TT_PRESIDUAL] : NULL,
        .left = has_residual ? args->out[1] : NULL,
        .body = body,
    };
    const int64_t bytes = run(&a);
    memset(body + bytes, 0,
           (size_t)(about.capacity - TT_PACKET_HEADER - bytes));
    tt_packet_close(&about, packet, TT_PACKET_HEADER + bytes,
                    tt_simd_get()->code->hash(body, bytes));
    return TT_OK;
}

static tt_status sum(const tt_site *site, const tt_args *args,
                     bool (*run)(const tt_simd_code_add *a))
{
    const tt_packet_form *form = site->op->family;
    const tt_code_params *p = site->params;
    const char *op = site->op->name;
    const int64_t n = tt_operand_count(&site->out[0]);
    const tt_packet about = {
        .kind = form->kind,
        .options = tt_code_digest(p),
        .n = n,
        .capacity = tt_packet_capacity(tt_packet_body(form, p, n, TT_F32))};
    const int64_t peers =
        tt_operand_count(&site->in[TT_PSUM_PACKETS]) / about.capacity;
    const unsigned char *packet = args->in[TT_PSUM_PACKETS];
    for (int64_t r = 0; r < peers; r++, packet += about.capacity) {
        tt_simd_code_add a = {.n = n,
                              .block = p->block,
                              .levels = (int)p->levels,
                              .body = packet + TT_PACKET_HEADER,
                              .y = args->out[0],
                              .is_first = r == 0};
        TT_TRY(tt_packet_open(&about, op, r, packet, &a.bytes));
        a.bytes -= TT_PACKET_HEADER;
        TT_TRY(tt_packet_check(&about, op, r, packet,
                               tt_simd_get()->code->hash(a.body, a.bytes)));
        if (!run(&a))
            return tt_packet_refuse(op, r);
    }
    return TT_OK;
}

TT_KERNEL_RUN(run_threelc,
              encode(site, args, tt_simd_get()->code_entropy->threelc))
TT_KERNEL_RUN(run_threelc_sum,
              sum(site, args, tt_simd_get()->code_entropy->threelc_add))
TT_KERNEL_RUN(run_qsgd, encode(site, args, tt_simd_get()->code_qsgd->encode))
TT_KERNEL_RUN(run_qsgd_sum, sum(site, args, tt_simd_get()->code_qsgd->add))

const tt_kernel_def tt__cpu_code_entropy_kernels[] = {
    {TT_KERNEL(cpu, threelc_encode), .can = can_encode, .run = run_threelc},
    {TT_KERNEL(cpu, threelc_sum), .can = can_sum, .run = run_threelc_sum},
    {TT_KERNEL(cpu, qsgd_encode), .can = can_encode, .run = run_qsgd},
    {TT_KERNEL(cpu, qsgd_sum), .can = can_sum, .run = run_qsgd_sum},
    {0},
};
