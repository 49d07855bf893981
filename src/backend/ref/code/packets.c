// packets - reference kernels of codecs: a residual is what the decoder makes of the
// code, taken from what was encoded; a sum is one code after another.

#include "backend/ref/code/packets.h"

#include "base/rng.h"
#include "ops/codec/codes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 24, SQUARES = 4096 };

tt_status tt__ref_packet_prepare(tt_backend *backend, tt_site *site,
                                 tt_prepared *prepared_out)
{
    (void)backend;
    int64_t n = 0;
    for (int i = 0; i < site->n_in; i++)
        if (tt_site_has(site, i) && site->in[i].dtype != TT_U8 &&
            tt_operand_count(&site->in[i]) > n)
            n = tt_operand_count(&site->in[i]);
    prepared_out->scratch_bytes = n * (2 * (int64_t)sizeof(double) + ROOM);
    return TT_OK;
}

double tt__ref_left(bool is_wide, double e, double d)
{
    const double left = is_wide ? e - d : (double)((float)e - (float)d);
    return isfinite(left) ? left : 0;
}

static double add(bool is_wide, double a, double b)
{
    return is_wide ? a + b : (double)((float)a + (float)b);
}

_Static_assert(sizeof((tt__ref_chains){0}.chain) == (size_t)4 * TT_CODE_CHAINS,
               "as many as codes.h says");

void tt__ref_chains_add(tt__ref_chains *c, float x)
{
    c->chain[c->n++ % TT_CODE_CHAINS] += x;
}

float tt__ref_chains_sum(tt__ref_chains c)
{
    for (int half = TT_CODE_CHAINS / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            c.chain[i] += c.chain[i + half];
    return c.chain[0];
}

static double squares(const double *x, int64_t n)
{
    double chain[TT_CODE_CHAINS] = {0};
    for (int64_t i = 0; i < n; i++)
        chain[i % TT_CODE_CHAINS] += x[i] * x[i];
    for (int half = TT_CODE_CHAINS / 2; half > 0; half /= 2)
        for (int c = 0; c < half; c++)
            chain[c] += chain[c + half];
    return chain[0];
}

double tt__ref_squares(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += SQUARES)
        sum += squares(x + i, n - i < SQUARES ? n - i : SQUARES);
    return sum;
}

static void describe(const tt__ref_code *code, const tt_site *site, int64_t n,
                     int64_t capacity, tt_packet *out)
{
    const tt_packet_form *form = site->op->family;
    *out = (tt_packet){
        .kind = tt_packet_kind_of(form, site->params),
        .options = code->digest == NULL ? 0 : code->digest(site->params),
        .n = n,
        .capacity = capacity};
}

uint64_t tt__packet_key(const tt_site *site, const tt_args *args)
{
    if (!tt_site_has(site, TT_PSEED) || !tt_site_has(site, TT_PSTEP))
        return 0;
    return tt_rng_key((uint64_t) * (const int64_t *)args->in[TT_PSEED],
                      site->origin,
                      (uint64_t) * (const int64_t *)args->in[TT_PSTEP]);
}

tt_status tt__ref_encode(const tt__ref_code *code, const tt_site *site,
                         const tt_args *args)
{
    const tt_operand *x = &site->in[TT_PX];
    const int64_t n = tt_operand_count(x);
    double *e = args->scratch, *d = e + n;
    const tt__ref_job job = {.op = site->op->name,
                             .form = site->op->family,
                             .how = code->how,
                             .params = site->params,
                             .n = n,
                             .capacity = tt_operand_count(&site->out[0]) -
                                         TT_PACKET_HEADER,
                             .key = tt__packet_key(site, args),
                             .is_wide = x->dtype == TT_F64,
                             .has_residual = tt_site_has(site, TT_PRESIDUAL),
                             .e = e,
                             .room = d + n};
    unsigned char *packet = args->out[0], *body = packet + TT_PACKET_HEADER;
    for (int64_t i = 0; i < n; i++) {
        e[i] = tt_dtype_load(x->dtype, args->in[TT_PX], i);
        if (job.has_residual)
            e[i] = add(job.is_wide, e[i],
                       tt_dtype_load(site->in[TT_PRESIDUAL].dtype,
                                     args->in[TT_PRESIDUAL], i));
    }
    memset(packet, 0, (size_t)tt_operand_count(&site->out[0]));
    const int64_t bytes = code->encode(&job, body);
    tt_packet about;
    describe(code, site, n, tt_operand_count(&site->out[0]), &about);
    tt_packet_close(&about, packet, TT_PACKET_HEADER + bytes,
                    tt_packet_hash(body, bytes));
    if (!job.has_residual)
        return TT_OK;
    if (!code->decode(&job, body, bytes, d))
        return tt_packet_refuse(site->op->name, -1);
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(site->out[1].dtype, args->out[1], i,
                       tt__ref_left(job.is_wide, e[i], d[i]));
    return TT_OK;
}

// Adds what a replica's code stands for; a vote adds sizes, and counts signs in `room`.
static void add_all(const tt__ref_code *code, const tt__ref_job *job,
                    bool is_first, double *sum, const double *d)
{
    double *votes = job->room;
    for (int64_t i = 0; i < job->n; i++) {
        const double size = code->is_vote ? fabs(d[i]) : d[i];
        sum[i] = is_first ? size : add(job->is_wide, sum[i], size);
        if (code->is_vote)
            votes[i] = (is_first ? 0 : votes[i]) + (signbit(d[i]) ? -1 : 1);
    }
}

static tt_status read_one(const tt__ref_code *code, const tt__ref_job *job,
                          const tt_packet *about, const unsigned char *packet,
                          int64_t peer, double *d)
{
    const unsigned char *body = packet + TT_PACKET_HEADER;
    int64_t bytes = 0;
    TT_TRY(tt_packet_open(about, job->op, peer, packet, &bytes));
    bytes -= TT_PACKET_HEADER;
    TT_TRY(tt_packet_check(about, job->op, peer, packet,
                           tt_packet_hash(body, bytes)));
    return code->decode(job, body, bytes, d) ? TT_OK
                                             : tt_packet_refuse(job->op, peer);
}

tt_status tt__ref_sum(const tt__ref_code *code, const tt_site *site,
                      const tt_args *args)
{
    const tt_operand *y = &site->out[0];
    const int64_t n = tt_operand_count(y);
    const int64_t capacity = tt_packet_capacity(
        tt_packet_body(site->op->family, site->params, n, y->dtype));
    const int64_t peers =
        tt_operand_count(&site->in[TT_PSUM_PACKETS]) / capacity;
    double *sum = args->scratch, *d = sum + n;
    const tt__ref_job job = {.op = site->op->name,
                             .form = site->op->family,
                             .how = code->how,
                             .params = site->params,
                             .n = n,
                             .capacity = capacity - TT_PACKET_HEADER,
                             .is_wide = y->dtype == TT_F64,
                             .room = d + n};
    tt_packet about;
    describe(code, site, n, capacity, &about);
    const unsigned char *packet = args->in[TT_PSUM_PACKETS];
    for (int64_t p = 0; p < peers; p++) {
        TT_TRY(read_one(code, &job, &about, packet + p * capacity, p, d));
        add_all(code, &job, p == 0, sum, d);
    }
    const double *votes = job.room;
    for (int64_t i = 0; i < n; i++) {
        if (code->is_vote)
            sum[i] *= votes[i] > 0 ? 1 : votes[i] < 0 ? -1 : 0;
        tt_dtype_store(y->dtype, args->out[0], i, sum[i]);
    }
    return TT_OK;
}

// ---- picking -------------------------------------------------------------

typedef struct entry {
    uint64_t size;
    int64_t at;
} entry;

static uint64_t size_of(bool is_wide, double x)
{
    uint64_t wide;
    uint32_t narrow;
    const float f = (float)x;
    if (is_wide) {
        memcpy(&wide, &x, sizeof wide);
        return wide & (uint64_t)INT64_MAX;
    }
    memcpy(&narrow, &f, sizeof narrow);
    return narrow & (uint32_t)INT32_MAX;
}

static int by_size(const void *pa, const void *pb)
{
    const entry *a = pa, *b = pb;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}

static int by_place(const void *pa, const void *pb)
{
    const entry *a = pa, *b = pb;
    return a->at < b->at ? -1 : 1;
}

int64_t tt__ref_largest(const tt__ref_pick *pick, uint32_t *place, void *room)
{
    entry *all = room;
    int64_t found = 0;
    for (int64_t i = 0; i < pick->n; i++) {
        const uint64_t size = size_of(pick->is_wide, pick->x[i]);
        if (size >= size_of(pick->is_wide, pick->least))
            all[found++] = (entry){size, i};
    }
    qsort(all, (size_t)found, sizeof *all, by_size);
    found = found < pick->k ? found : pick->k;
    qsort(all, (size_t)found, sizeof *all, by_place);
    for (int64_t i = 0; i < found; i++)
        place[i] = (uint32_t)all[i].at;
    return found;
}
