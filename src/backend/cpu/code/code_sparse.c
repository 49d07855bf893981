// code_sparse - kernels of the codecs that pick entries (ops/codec/sparse.h).

#include "backend/cpu/wrap.h"
#include "ops/codec/sparse.h"
#include "ops/ops.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const uint32_t minus = 0x80000000u;

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

// Room for the places and values of all entries.
static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes = 8 * tt_operand_count(&site->in[TT_PX]);
    return TT_OK;
}

static tt_simd_pick start(const tt_site *site, const tt_args *args)
{
    const int64_t n = tt_operand_count(&site->in[TT_PX]);
    const bool has_residual = tt_site_has(site, TT_PRESIDUAL);
    return (tt_simd_pick){
        .n = n,
        .x = args->in[TT_PX],
        .residual = has_residual ? args->in[TT_PRESIDUAL] : NULL,
        .left = has_residual ? args->out[1] : NULL,
        .place = args->scratch,
        .value = (float *)args->scratch + n,
    };
}

static void close_packet(const tt_site *site, const tt_args *args,
                         tt_packet_kind kind, int64_t bytes)
{
    unsigned char *packet = args->out[0], *body = packet + TT_PACKET_HEADER;
    const tt_packet about = {.kind = kind,
                             .n = tt_operand_count(&site->in[TT_PX]),
                             .capacity = tt_operand_count(&site->out[0])};
    memset(body + bytes, 0,
           (size_t)(about.capacity - TT_PACKET_HEADER - bytes));
    tt_packet_close(&about, packet, TT_PACKET_HEADER + bytes,
                    tt_simd_get()->code->hash(body, bytes));
}

static void write_entries(const tt_site *site, const tt_args *args,
                          tt_packet_kind kind, const tt_simd_pick *p,
                          int64_t count)
{
    unsigned char *body = (unsigned char *)args->out[0] + TT_PACKET_HEADER;
    memcpy(body, &count, sizeof count);
    memcpy(body + TT_SPARSE_HEAD, p->value, (size_t)(4 * count));
    memcpy(body + TT_SPARSE_HEAD + 4 * count, p->place, (size_t)(4 * count));
    close_packet(site, args, kind, tt_sparse_body(count, 4));
}

// Entries are sent as they are, so nothing of them is left.
static tt_status send_picked(const tt_site *site, const tt_args *args,
                             tt_packet_kind kind, const tt_simd_pick *p)
{
    const int64_t count = tt_simd_get()->code_pick->pick(p);
    write_entries(site, args, kind, p, count);
    for (int64_t i = 0; i < count && p->left != NULL; i++)
        p->left[p->place[i]] = 0;
    return TT_OK;
}

static tt_status run_topk(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_sparse_params *params = site->params;
    tt_simd_pick p = start(site, args);
    p.k = tt_sparse_count(params->ratio, p.n);
    return send_picked(site, args, TT_PACKET_SPARSE, &p);
}

// What is not zero has a bit at least.
static tt_status run_nonzero(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    tt_simd_pick p = start(site, args);
    p.k = p.n;
    p.least = 1;
    return send_picked(site, args, TT_PACKET_NONZERO, &p);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// The threshold; e lies in `left` afterwards, if there is a residual.
static float find_tau(const tt_sparse_params *params, tt_simd_pick *p)
{
    float tau = (float)params->tau;
    if (params->tau <= 0) {
        tau = (float)(params->relative *
                      sqrt(tt_simd_get()->code_pick->squares(p->x, p->residual,
                                                             p->left, p->n) /
                           (double)p->n));
        if (p->left != NULL) {
            p->x = p->left;
            p->residual = NULL;
        }
    }
    return tau >= FLT_MIN ? tau : FLT_MIN;
}

static tt_status run_threshold(void *state, const tt_site *site,
                               const tt_args *args)
{
    (void)state;
    const tt_sparse_params *params = site->params;
    tt_simd_pick p = start(site, args);
    p.k = tt_sparse_count(params->ratio, p.n);
    float tau = find_tau(params, &p);
    p.least = bits_of(tau);
    const uint32_t count = (uint32_t)tt_simd_get()->code_pick->pick(&p);
    for (uint32_t i = 0; i < count; i++)
        tau = isfinite(p.value[i]) ? tau : NAN;
    for (uint32_t i = 0; i < count; i++) {
        const bool is_minus = p.value[i] < 0;
        const float rest = p.value[i] - (is_minus ? -tau : tau);
        if (p.left != NULL)
            p.left[p.place[i]] = isfinite(rest) ? rest : 0;
        p.value[i] = is_minus ? -tau : tau;
        p.place[i] |= is_minus && !params->has_values ? minus : 0;
    }
    if (params->has_values) {
        write_entries(site, args, TT_PACKET_SPARSE, &p, count);
        return TT_OK;
    }
    unsigned char *body = (unsigned char *)args->out[0] + TT_PACKET_HEADER;
    memcpy(body, &count, sizeof count);
    memcpy(body + 4, &tau, sizeof tau);
    memcpy(body + TT_SPARSE_HEAD, p.place, (size_t)(4 * (int64_t)count));
    close_packet(site, args, TT_PACKET_THRESHOLD, tt_threshold_body(count));
    return TT_OK;
}

static tt_status run_dgc(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_sparse_params *params = site->params;
    const tt_simd_code_pick *code = tt_simd_get()->code_pick;
    const int64_t n = tt_operand_count(&site->in[TT_DGC_X]);
    const float *in[2] = {args->in[TT_DGC_U], args->in[TT_DGC_V]};
    float *out[2] = {args->out[TT_DGC_U_OUT], args->out[TT_DGC_V_OUT]};
    double factor = 1;
    if (params->clip > 0) {
        const double norm =
            sqrt(code->squares(args->in[TT_DGC_X], NULL, NULL, n));
        const double most = params->clip / sqrt((double)params->peers);
        factor = norm > most ? most / norm : 1;
    }
    const float by[2] = {(float)params->momentum, (float)factor};
    code->gather(args->in[TT_DGC_X], in, out, n, by);
    tt_simd_pick p = {
        .n = n,
        .k = tt_dgc_count(params, n, *(const int64_t *)args->in[TT_DGC_STEP]),
        .x = out[1],
        .left = out[1],
        .place = args->scratch,
        .value = (float *)args->scratch + n,
    };
    const int64_t count = code->pick(&p);
    write_entries(site, args, TT_PACKET_SPARSE, &p, count);
    for (int64_t i = 0; i < count; i++)
        out[0][p.place[i]] = out[1][p.place[i]] = 0;
    return TT_OK;
}

// ---- sums ----------------------------------------------------------------

// Places must be inside and ascend, so that none is there twice.
static bool places_are_right(const unsigned char *places, int64_t count,
                             int64_t n, uint32_t mask)
{
    int64_t before = -1;
    bool are_right = true;
    for (int64_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, places + 4 * i, sizeof word);
        const int64_t place = word & mask;
        are_right &= place > before;
        before = place;
    }
    return are_right && before < n;
}

static bool add_entries(const unsigned char *body, int64_t bytes, int64_t n,
                        float *y)
{
    int64_t count = 0;
    if (bytes < TT_SPARSE_HEAD)
        return false;
    memcpy(&count, body, sizeof count);
    if (count < 0 || count > n || bytes != tt_sparse_body(count, 4))
        return false;
    const unsigned char *values = body + TT_SPARSE_HEAD;
    const unsigned char *places = values + 4 * count;
    if (!places_are_right(places, count, n, UINT32_MAX))
        return false;
    for (int64_t i = 0; i < count; i++) {
        uint32_t place;
        float value;
        memcpy(&place, places + 4 * i, sizeof place);
        memcpy(&value, values + 4 * i, sizeof value);
        y[place] += value;
    }
    return true;
}

static bool add_thresholds(const unsigned char *body, int64_t bytes, int64_t n,
                           float *y)
{
    uint32_t count = 0;
    float tau = 0;
    if (bytes < TT_SPARSE_HEAD)
        return false;
    memcpy(&count, body, sizeof count);
    memcpy(&tau, body + 4, sizeof tau);
    const unsigned char *places = body + TT_SPARSE_HEAD;
    if (bytes != tt_threshold_body(count) ||
        !places_are_right(places, count, n, ~minus))
        return false;
    for (int64_t i = 0; i < (int64_t)count; i++) {
        uint32_t word;
        memcpy(&word, places + 4 * i, sizeof word);
        y[word & ~minus] += (word & minus) != 0 ? -tau : tau;
    }
    return true;
}

typedef bool add_fn(const unsigned char *body, int64_t bytes, int64_t n,
                    float *y);

static tt_status sum(const tt_site *site, const tt_args *args,
                     const tt_packet *about, add_fn *add)
{
    const char *op = site->op->name;
    const int64_t peers =
        tt_operand_count(&site->in[TT_PSUM_PACKETS]) / about->capacity;
    const unsigned char *packet = args->in[TT_PSUM_PACKETS];
    memset(args->out[0], 0, (size_t)(4 * about->n));
    for (int64_t p = 0; p < peers; p++, packet += about->capacity) {
        const unsigned char *body = packet + TT_PACKET_HEADER;
        int64_t bytes = 0;
        TT_TRY(tt_packet_open(about, op, p, packet, &bytes));
        bytes -= TT_PACKET_HEADER;
        TT_TRY(tt_packet_check(about, op, p, packet,
                               tt_simd_get()->code->hash(body, bytes)));
        if (!add(body, bytes, about->n, args->out[0]))
            return tt_packet_refuse(op, p);
    }
    return TT_OK;
}

static tt_packet about_of(const tt_site *site)
{
    const tt_packet_form *form = site->op->family;
    const int64_t n = tt_operand_count(&site->out[0]);
    return (tt_packet){.kind = form->kind,
                       .n = n,
                       .capacity = tt_packet_capacity(
                           tt_packet_body(form, site->params, n, TT_F32))};
}

static tt_status run_entries_sum(void *state, const tt_site *site,
                                 const tt_args *args)
{
    (void)state;
    const tt_packet about = about_of(site);
    return sum(site, args, &about, add_entries);
}

static tt_status run_threshold_sum(void *state, const tt_site *site,
                                   const tt_args *args)
{
    (void)state;
    const tt_packet about = about_of(site);
    return sum(site, args, &about, add_thresholds);
}

const tt_kernel_def tt__cpu_code_sparse_kernels[] = {
    {TT_KERNEL(cpu, topk_encode), .can = can_encode, .prepare = prepare,
     .run = run_topk},
    {TT_KERNEL(cpu, topk_sum), .can = can_sum, .run = run_entries_sum},
    {TT_KERNEL(cpu, nonzero_encode), .can = can_encode, .prepare = prepare,
     .run = run_nonzero},
    {TT_KERNEL(cpu, nonzero_sum), .can = can_sum, .run = run_entries_sum},
    {TT_KERNEL(cpu, threshold_encode), .can = can_encode, .prepare = prepare,
     .run = run_threshold},
    {TT_KERNEL(cpu, threshold_sum), .can = can_sum, .run = run_threshold_sum},
    {TT_KERNEL(cpu, dgc_encode), .can = can_gather, .prepare = prepare,
     .run = run_dgc},
    {0},
};
