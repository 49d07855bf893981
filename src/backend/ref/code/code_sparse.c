// code_sparse - reference kernels of the codecs that pick entries (sparse.h).

#include "backend/ref/code/packets.h"
#include "base/rng.h"
#include "ops/codec/sparse.h"
#include "ops/ops.h"

#include <float.h>
#include <math.h>
#include <string.h>

// ---- topk ----------------------------------------------------------------

// Writes entries of x as a body; returns its bytes.
static int64_t write_entries(bool is_wide, const double *x,
                             const uint32_t *place, int64_t count,
                             unsigned char *body)
{
    const int64_t value_bytes = is_wide ? 8 : 4;
    unsigned char *values = body + TT_SPARSE_HEAD;
    memcpy(body, &count, sizeof count);
    for (int64_t i = 0; i < count; i++)
        tt_dtype_store(is_wide ? TT_F64 : TT_F32, values, i, x[place[i]]);
    memcpy(values + count * value_bytes, place, (size_t)(4 * count));
    return tt_sparse_body(count, value_bytes);
}

static int64_t encode_topk(const tt__ref_job *job, unsigned char *body)
{
    const tt_sparse_params *p = job->params;
    const int64_t k = tt_sparse_count(p->ratio, job->n);
    uint32_t *place = job->room;
    const tt__ref_pick pick = {job->is_wide, job->e, job->n, k, 0};
    tt__ref_largest(&pick, place, (char *)job->room + 8 * job->n);
    return write_entries(job->is_wide, job->e, place, k, body);
}

// Places must be inside and ascend, so that none is there twice.
static bool places_are_right(const unsigned char *places, int64_t count,
                             int64_t n)
{
    int64_t before = -1;
    for (int64_t i = 0; i < count; i++) {
        uint32_t place;
        memcpy(&place, places + 4 * i, sizeof place);
        if ((int64_t)place <= before || (int64_t)place >= n)
            return false;
        before = place;
    }
    return true;
}

static bool decode_topk(const tt__ref_job *job, const unsigned char *body,
                        int64_t bytes, double *d)
{
    const int64_t value_bytes = job->is_wide ? 8 : 4;
    int64_t count;
    if (bytes < TT_SPARSE_HEAD)
        return false;
    memcpy(&count, body, sizeof count);
    if (count < 0 || count > job->n ||
        bytes != tt_sparse_body(count, value_bytes))
        return false;
    const unsigned char *values = body + TT_SPARSE_HEAD;
    const unsigned char *places = values + count * value_bytes;
    if (!places_are_right(places, count, job->n))
        return false;
    memset(d, 0, (size_t)job->n * sizeof *d);
    for (int64_t i = 0; i < count; i++) {
        uint32_t place;
        memcpy(&place, places + 4 * i, sizeof place);
        d[place] = tt_dtype_load(job->is_wide ? TT_F64 : TT_F32, values, i);
    }
    return true;
}

static const tt__ref_code code_topk = {
    .encode = encode_topk,
    .decode = decode_topk,
};

TT_KERNEL_RUN(run_topk, tt__ref_encode(&code_topk, site, args))
TT_KERNEL_RUN(run_topk_sum, tt__ref_sum(&code_topk, site, args))

// ---- nonzero -------------------------------------------------------------

static int64_t encode_nonzero(const tt__ref_job *job, unsigned char *body)
{
    uint32_t *place = job->room;
    int64_t count = 0;
    for (int64_t i = 0; i < job->n; i++)
        if (!(fabs(job->e[i]) <= 0))
            place[count++] = (uint32_t)i;
    return write_entries(job->is_wide, job->e, place, count, body);
}

static const tt__ref_code code_nonzero = {
    .encode = encode_nonzero,
    .decode = decode_topk,
};

TT_KERNEL_RUN(run_nonzero, tt__ref_encode(&code_nonzero, site, args))
TT_KERNEL_RUN(run_nonzero_sum, tt__ref_sum(&code_nonzero, site, args))

// ---- threshold -----------------------------------------------------------

static const uint32_t minus = 0x80000000u;

static int64_t encode_threshold(const tt__ref_job *job, unsigned char *body)
{
    const tt_sparse_params *p = job->params;
    const int64_t k = tt_sparse_count(p->ratio, job->n);
    uint32_t *place = job->room;
    double *e = (double *)job->room + job->n; // as floats are
    for (int64_t i = 0; i < job->n; i++)
        e[i] = (double)(float)job->e[i];
    float tau = (float)p->tau;
    if (p->tau <= 0)
        tau = (float)(p->relative *
                      sqrt(tt__ref_squares(e, job->n) / (double)job->n));
    const float least = tau >= FLT_MIN ? tau : FLT_MIN;
    const tt__ref_pick pick = {false, job->e, job->n, k, (double)least};
    const uint32_t count =
        (uint32_t)tt__ref_largest(&pick, place, (char *)job->room + 8 * job->n);
    tau = least;
    for (uint32_t i = 0; i < count; i++) {
        const float x = (float)job->e[place[i]];
        tau = isfinite(x) ? tau : NAN;
        place[i] |= x < 0 ? minus : 0;
    }
    if (p->has_values) {
        for (uint32_t i = 0; i < count; i++)
            e[place[i] & ~minus] =
                (double)((place[i] & minus) != 0 ? -tau : tau);
        for (uint32_t i = 0; i < count; i++)
            place[i] &= ~minus;
        return write_entries(job->is_wide, e, place, count, body);
    }
    memcpy(body, &count, sizeof count);
    memcpy(body + 4, &tau, sizeof tau);
    memcpy(body + TT_SPARSE_HEAD, place, (size_t)(4 * (int64_t)count));
    return tt_threshold_body(count);
}

static bool decode_threshold(const tt__ref_job *job, const unsigned char *body,
                             int64_t bytes, double *d)
{
    const tt_sparse_params *p = job->params;
    uint32_t count;
    float tau;
    int64_t before = -1;
    if (p->has_values)
        return decode_topk(job, body, bytes, d);
    if (bytes < TT_SPARSE_HEAD)
        return false;
    memcpy(&count, body, sizeof count);
    memcpy(&tau, body + 4, sizeof tau);
    if (bytes != tt_threshold_body(count))
        return false;
    memset(d, 0, (size_t)job->n * sizeof *d);
    for (int64_t i = 0; i < (int64_t)count; i++) {
        uint32_t word;
        memcpy(&word, body + TT_SPARSE_HEAD + 4 * i, sizeof word);
        const int64_t place = word & ~minus;
        if (place <= before || place >= job->n)
            return false;
        before = place;
        d[place] = (double)((word & minus) != 0 ? -tau : tau);
    }
    return true;
}

static const tt__ref_code code_threshold = {
    .encode = encode_threshold,
    .decode = decode_threshold,
};

TT_KERNEL_RUN(run_threshold, tt__ref_encode(&code_threshold, site, args))
TT_KERNEL_RUN(run_threshold_sum, tt__ref_sum(&code_threshold, site, args))

// ---- dgc -----------------------------------------------------------------

// u and v after a gradient, in the tensor's own precision.
static void gather(bool is_wide, double momentum, double g, double *u,
                   double *v)
{
    if (is_wide) {
        *u = momentum * *u + g;
        *v += *u;
    } else {
        const float next = (float)momentum * (float)*u + (float)g;
        *u = (double)next;
        *v = (double)((float)*v + next);
    }
}

static double clip_factor(const tt_sparse_params *p, const double *g, int64_t n)
{
    const double norm = sqrt(tt__ref_squares(g, n));
    const double most = p->clip / sqrt((double)p->peers);
    return p->clip > 0 && norm > most ? most / norm : 1;
}

static tt_status run_dgc(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_sparse_params *p = site->params;
    const tt_operand *x = &site->in[TT_DGC_X];
    const int64_t n = tt_operand_count(x);
    const bool is_wide = x->dtype == TT_F64;
    const tt_dtype wide = is_wide ? TT_F64 : TT_F32;
    double *g = args->scratch, *v = g + n;
    uint32_t *place = (uint32_t *)(v + n);
    const int64_t k =
        tt_dgc_count(p, n, *(const int64_t *)args->in[TT_DGC_STEP]);
    for (int64_t i = 0; i < n; i++)
        g[i] = tt_dtype_load(x->dtype, args->in[TT_DGC_X], i);
    const double factor = clip_factor(p, g, n);
    for (int64_t i = 0; i < n; i++) {
        double u = tt_dtype_load(wide, args->in[TT_DGC_U], i);
        v[i] = tt_dtype_load(wide, args->in[TT_DGC_V], i);
        const double scaled =
            is_wide ? g[i] * factor : (double)((float)g[i] * (float)factor);
        gather(is_wide, p->momentum, scaled, &u, &v[i]);
        tt_dtype_store(wide, args->out[TT_DGC_U_OUT], i, isfinite(u) ? u : 0);
        tt_dtype_store(wide, args->out[TT_DGC_V_OUT], i,
                       isfinite(v[i]) ? v[i] : 0);
    }
    tt__ref_largest(&(tt__ref_pick){is_wide, v, n, k, 0}, place,
                    (char *)place + 8 * n);
    unsigned char *packet = args->out[TT_DGC_CODE];
    unsigned char *body = packet + TT_PACKET_HEADER;
    const int64_t capacity = tt_operand_count(&site->out[TT_DGC_CODE]);
    memset(packet, 0, (size_t)capacity);
    const int64_t bytes = write_entries(is_wide, v, place, k, body);
    const tt_packet about = {
        .kind = TT_PACKET_SPARSE, .n = n, .capacity = capacity};
    tt_packet_close(&about, packet, TT_PACKET_HEADER + bytes,
                    tt_packet_hash(body, bytes));
    for (int64_t i = 0; i < k; i++) {
        tt_dtype_store(wide, args->out[TT_DGC_U_OUT], place[i], 0);
        tt_dtype_store(wide, args->out[TT_DGC_V_OUT], place[i], 0);
    }
    return TT_OK;
}

// ---- randomk -------------------------------------------------------------

// Taking and putting are two nodes, so the node's name is not part of the key: the seed
// that the caller gives tells tensors apart.
static uint64_t key_of(const tt_args *args, int seed)
{
    return tt_rng_key((uint64_t) * (const int64_t *)args->in[seed], "randomk",
                      (uint64_t) * (const int64_t *)args->in[seed + 1]);
}

static tt_status run_take(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_operand *x = &site->in[TT_RK_X];
    const int64_t n = tt_operand_count(x), k = tt_operand_count(&site->out[0]);
    const bool has_residual = tt_site_has(site, TT_RK_RESIDUAL);
    const bool is_wide = x->dtype == TT_F64;
    const tt_dtype wide = is_wide ? TT_F64 : TT_F32;
    const uint64_t key = key_of(args, TT_RK_SEED);
    for (int64_t i = 0; i < n && has_residual; i++) {
        const double a = tt_dtype_load(x->dtype, args->in[TT_RK_X], i);
        const double r = tt_dtype_load(wide, args->in[TT_RK_RESIDUAL], i);
        const double e = is_wide ? a + r : (double)((float)a + (float)r);
        tt_dtype_store(wide, args->out[1], i, e);
    }
    for (int64_t j = 0; j < k; j++) {
        const int64_t at = tt_randomk_place(key, n, k, j);
        const double length =
            (double)(tt_randomk_first(n, k, j + 1) - tt_randomk_first(n, k, j));
        double value = has_residual
                           ? tt_dtype_load(wide, args->out[1], at)
                           : tt_dtype_load(x->dtype, args->in[TT_RK_X], at);
        if (!has_residual)
            value = is_wide ? value * length
                            : (double)((float)value * (float)length);
        tt_dtype_store(wide, args->out[0], j, value);
        if (has_residual)
            tt_dtype_store(wide, args->out[1], at, 0);
    }
    for (int64_t i = 0; i < n && has_residual; i++)
        if (!isfinite(tt_dtype_load(wide, args->out[1], i)))
            tt_dtype_store(wide, args->out[1], i, 0);
    return TT_OK;
}

static tt_status run_put(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_operand *y = &site->out[0], *values = &site->in[TT_RP_VALUES];
    const int64_t n = tt_operand_count(y), k = tt_operand_count(values);
    const uint64_t key = key_of(args, TT_RP_SEED);
    memset(args->out[0], 0, (size_t)(n * tt_dtype_bytes(y->dtype)));
    for (int64_t j = 0; j < k; j++)
        tt_dtype_store(y->dtype, args->out[0], tt_randomk_place(key, n, k, j),
                       tt_dtype_load(values->dtype, args->in[TT_RP_VALUES], j));
    return TT_OK;
}

const tt_kernel_def tt__ref_code_sparse_kernels[] = {
    {TT_KERNEL(ref, topk_encode), .prepare = tt__ref_packet_prepare,
     .run = run_topk},
    {TT_KERNEL(ref, topk_sum), .prepare = tt__ref_packet_prepare,
     .run = run_topk_sum},
    {TT_KERNEL(ref, nonzero_encode), .prepare = tt__ref_packet_prepare,
     .run = run_nonzero},
    {TT_KERNEL(ref, nonzero_sum), .prepare = tt__ref_packet_prepare,
     .run = run_nonzero_sum},
    {TT_KERNEL(ref, threshold_encode), .prepare = tt__ref_packet_prepare,
     .run = run_threshold},
    {TT_KERNEL(ref, threshold_sum), .prepare = tt__ref_packet_prepare,
     .run = run_threshold_sum},
    {TT_KERNEL(ref, dgc_encode), .prepare = tt__ref_packet_prepare,
     .run = run_dgc},
    {TT_KERNEL(ref, randomk_take), .run = run_take},
    {TT_KERNEL(ref, randomk_put), .run = run_put},
    {0},
};
